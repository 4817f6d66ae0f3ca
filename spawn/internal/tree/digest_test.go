package tree

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// S3: the digest of a request differs for every field that makes it another request. A field that
// is added to a command or a request must be named here as one that does, or one that does not.
func TestDigestHasEveryField(t *testing.T) {
	not := map[reflect.Type][]string{
		reflect.TypeFor[Spawn](): {
			"Parent", "ID", "Turn", "Key", "Extra", "Origin", "Answers", "Bind", "Dry", "Again",
			"Asked", "AskedOf", "Files", "Deposits", "Route", "Senders", "Shown",
		},
		reflect.TypeFor[policy.Request](): {"Child", "ValidModel", "ByModel", "Fork"},
	}
	seen := map[string]string{(&Spawn{}).digest(): "nothing"}
	fields := func(v reflect.Type, set func(c *Spawn) reflect.Value) {
		for f := range v.Fields() {
			if f.Name == "Request" || slices.Contains(not[v], f.Name) {
				continue
			}
			leaves := [][]int{f.Index}
			of, points := f.Type, f.Type.Kind() == reflect.Pointer
			if points {
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct {
				leaves = nil
				for g := range of.Fields() {
					leaves = append(leaves, append(slices.Clone(f.Index), g.Index...))
				}
			}
			for _, index := range leaves {
				c := new(Spawn)
				if points {
					set(c).FieldByIndex(f.Index).Set(reflect.New(of))
				}
				setNonZero(set(c).FieldByIndex(index))
				d := c.digest()
				require.Empty(t, seen[d], "%v.%s does not change the digest", v, f.Name)
				seen[d] = f.Name
			}
		}
	}
	fields(reflect.TypeFor[Spawn](), func(c *Spawn) reflect.Value {
		return reflect.ValueOf(c).Elem()
	})
	fields(reflect.TypeFor[policy.Request](), func(c *Spawn) reflect.Value {
		return reflect.ValueOf(&c.Request).Elem()
	})
	require.NotEqual(t, (&Spawn{Task: "a", Label: "b"}).digest(), (&Spawn{Task: "ab"}).digest())
	require.NotEqual(t, (&Spawn{}).digest(),
		(&Spawn{Request: policy.Request{Tools: []string{}}}).digest(), "nothing is not everything")
}

// S3: digests stand in journals, so that they never change.
func TestDigestNeverChanges(t *testing.T) {
	c := &Spawn{
		Task: "count\xff", Label: "l", Announce: true, Variant: "v", Request: policy.Request{
			Agent: "a", Model: "m", Thinking: "high", Timeout: time.Minute,
			Budget: policy.Budget{Tokens: 1, Cost: 0.5, Turns: 2}, Tools: []string{"x", "y"},
			Strict: true,
		},
	}
	require.Equal(t, "77c06ac0c3f1ab18eeb632078b974153", c.digest())
}

// A run of a library that did not compare where a conversation was asked for is the run of each
// place, and of no request that differs otherwise.
func TestSpawnKeyWithoutPlace(t *testing.T) {
	in := func(to string) *session.Route { return &session.Route{Channel: "chat", To: to} }
	for name, c := range map[string]Spawn{
		"thread": {Thread: true, Dry: true}, "update": {Update: true, Dry: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Parent, c.ID, c.Key, c.Task = top, "b", "k", "work"
			asked := func(place *session.Route, task Text) Spawn {
				q := c
				q.Place, q.Task = place, task
				return q
			}
			for _, first := range []*session.Route{nil, in("a")} {
				made := asked(first, "work")
				old := spawnRef{Digest: made.digestWithoutPlace()}
				now := spawnRef{Digest: made.digest()}
				for _, place := range []*session.Route{nil, in("a"), in("b")} {
					again, other := asked(place, "work"), asked(place, "other")
					require.NoError(t, again.conflict(old))
					require.ErrorIs(t, other.conflict(old), ErrKeyConflict)
					require.ErrorIs(t, other.conflict(now), ErrKeyConflict)
					require.Equal(t, reflect.DeepEqual(place, first), again.conflict(now) == nil)
				}
			}
		})
	}
}

// S3: a run that an earlier library admitted is the run of every request with its key. That library
// did not record whether a model asked, so that a turn which is repeated after an upgrade finds it.
func TestSpawnKeyOfVersion1(t *testing.T) {
	s := newScene()
	key := session.Must(top.Child("main", "a"))
	for _, f := range []*Fact{
		{Kind: Opened, Num: 1, At: s.now},
		{Kind: Admitted, At: s.now, Run: key, Spec: &Spec{
			ID:        "a",
			SessionID: "s",
			Key:       key,
			Parent:    top,
			Task:      "first",
			Created:   s.now,
			Grant:     &Grant{Role: session.RoleLeaf},
			SpecMore:  &SpecMore{SpawnKey: "k"},
		}},
	} {
		require.NoError(t, s.tree.Replay(f))
	}
	for _, byModel := range []bool{false, true} {
		c := &Spawn{Parent: top, ID: "b", Key: "k", Task: "second"}
		c.Request.ByModel = byModel
		require.Contains(t, s.do(c), "known: ")
	}
}
