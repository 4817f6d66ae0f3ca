package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// recordTree returns the entries of a tree in which much has happened, as a journal on disk has
// them.
func recordTree(t *testing.T) (list []session.Entry) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, spawn.Config{
			Store: store, CallerRun: true, Tools: []string{"read"},
			Rules:   policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}},
			Deliver: func(context.Context, spawn.Delivery) error { return errors.New("down") },
			Runner: (&spawntest.Runner{}).
				On(
					"boss",
					spawntest.Play{
						spawntest.Spawn(
							spawn.Request{Task: "a", Announce: true}, spawn.Request{Task: "b"},
						),
						spawntest.Yield(spawn.JoinOptions{}),
					},
					spawntest.Play{spawntest.Delay(time.Hour)},
				).
				On("b", spawntest.Play{spawntest.Delay(time.Hour)}),
		})
		boss, err := s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "boss", Key: "k", Announce: true},
		)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(
			t, errorOf(s.Post(t.Context(), topKey, boss.Key, spawn.Incoming{ID: "m", Text: "more"})),
		)
		time.Sleep(time.Minute)
		require.NoError(t, s.Stop(t.Context(), topKey, boss.Key, "enough"))
		time.Sleep(time.Hour)
		for e, err := range asWritten(store.Journal.Read(t.Context(), topKey, 0)) {
			require.NoError(t, err)
			list = append(list, e)
		}
	})
	require.Greater(t, len(list), 15)
	return list
}

func entriesOf(list []session.Entry) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// viewEntries views entries. It requires that an error is a *JournalError that says what is broken.
func viewEntries(
	t *testing.T, what string, list []session.Entry,
) (v spawn.TreeView, bad *spawn.JournalError) {
	t.Helper()
	v, err := spawn.View(topKey, entriesOf(list))
	if err == nil {
		return v, nil
	}
	require.ErrorAs(t, err, &bad, what)
	require.Equal(t, topKey, bad.Root, what)
	require.Zero(t, v, what)
	require.NotEqual(
		t, errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFormat), "%s: %v", what,
		err,
	)
	return v, bad
}

// A journal with a broken entry gives a view, or an error that names the entry.
func TestViewOfWhatIsBroken(t *testing.T) {
	skipUnderRace(t)
	good := recordTree(t)
	for i, e := range good {
		raw, _ := e.Payload.(session.Raw)
		with := func(p session.Payload) []session.Entry {
			list := slices.Clone(good)
			list[i].Payload = p
			return list
		}
		v, bad := viewEntries(t, "cut off after", good[:i+1])
		require.Nil(t, bad)
		require.Equal(t, e.Seq, v.Last)

		for what, list := range map[string][]session.Entry{
			"cut within":   with(raw[:len(raw)/2]),
			"empty":        with(session.Raw{}),
			"null":         with(session.Raw("null")),
			"no fact":      with(session.Raw(`{"a":1}`)),
			"no payload":   with(nil),
			"nil":          with((*tree.Fact)(nil)),
			"twice":        slices.Insert(slices.Clone(good), i, e),
			"newer":        with(session.Raw(bytes.Replace(raw, []byte(`"v":`), []byte(`"v":9`), 1))),
			"newer kind":   with(session.Raw(`{"v":2,"kind":"migrated"}`)),
			"of no run":    with(session.Raw(`{"v":1,"kind":"run_ended","run":"agent:x:main"}`)),
			"an old epoch": with(session.Raw(`{"v":1,"kind":"opened","num":0}`)),
		} {
			_, bad := viewEntries(t, what, list)
			require.NotNil(t, bad, "%s: entry %d", what, e.Seq)
			require.Equal(t, e.Seq, bad.Seq, "%s: %v", what, bad)
			require.Equal(
				t, strings.HasPrefix(what, "newer"), errors.Is(bad, session.ErrFormat), "%s: %v", what,
				bad,
			)
			require.Contains(
				t, bad.Error(),
				fmt.Sprintf(`spawn: journal of "agent:main:main", entry %d: `, e.Seq),
			)
		}
		_, bad = viewEntries(t, "missing", slices.Delete(slices.Clone(good), i, i+1))
		require.True(t, i > 0 || bad != nil, "a journal without its beginning")
		if i > 0 {
			_, bad = viewEntries(t, "without what came before", good[i:])
			require.NotNil(t, bad)
		}
		for at := i % 3; at < len(raw); at += 3 {
			flipped := slices.Clone(raw)
			flipped[at] ^= 1 << (at % 8)
			_, _ = viewEntries(t, "flipped", with(flipped))
		}
	}
}

// A snapshot that no owner can have written does not bring the program down.
func TestViewOfAWrongSnapshot(t *testing.T) {
	image := func(runs string) []session.Entry {
		return []session.Entry{
			{
				Seq: 1,
				Payload: session.Raw(
					`{"v":1,"kind":"snapshot","at":1,"image":{"epoch":1,"runs":[` + runs + `]}}`,
				),
			},
			{
				Seq: 2,
				Payload: session.Raw(
					`{"v":1,"kind":"turn_started","at":2,"run":"agent:main:main","n":1}`,
				),
			},
		}
	}
	main := `{"spec":{"key":"agent:main:main","agent":"main"},"state":3}`
	v, bad := viewEntries(t, "right", image(main))
	require.Nil(t, bad)
	require.Equal(t, spawn.StatusRunning, v.Status)
	for what, runs := range map[string]string{
		"a state that there is not": strings.Replace(main, `"state":3`, `"state":200`, 1),
		"without a specification":   `{}`,
		"of another tree":           strings.ReplaceAll(main, "agent:main", "agent:ops"),
		"null":                      `null`,
	} {
		_, bad := viewEntries(t, what, image(runs))
		require.NotNil(t, bad, what)
		require.ErrorIs(t, bad, session.ErrCorrupt)
	}
}

func TestViewRefuses(t *testing.T) {
	for _, root := range []session.Key{
		{}, session.Must(topKey.Child("main", "x")), session.BindingsRoot(),
	} {
		_, err := spawn.View(root, entriesOf(nil))
		var input *spawn.InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, "root", input.Field)
	}
	_, err := spawn.View(session.Must(session.MainKey("other")), entriesOf(recordTree(t)))
	require.ErrorIs(t, err, session.ErrCorrupt, "entries of another tree")

	_, bad := viewEntries(
		t, "of the second owner",
		[]session.Entry{{Seq: 1, Payload: session.Raw(`{"v":1,"kind":"opened","at":1,"num":2}`)}},
	)
	require.NotNil(t, bad, "what the first owner wrote is missing")

	gone := errors.New("the disk is gone")
	_, err = spawn.View(
		topKey, func(yield func(session.Entry, error) bool) { yield(session.Entry{}, gone) },
	)
	require.ErrorIs(t, err, gone)
	require.Contains(t, err.Error(), `the journal of "agent:main:main"`)
}

// FuzzView folds lines that may say anything.
func FuzzView(f *testing.F) {
	const child = `"agent:main:subagent:x"`
	lines := []string{
		`{"v":1,"kind":"opened","at":1,"num":1,"id":"s","text":"w"}`,
		`{"v":1,"kind":"admitted","at":2,"run":` + child + `,"spec":{"id":"x","sessionId":"c","key":` + child + `,"parent":"agent:main:main","task":"count","announce":true,"created":2,"agent":"main","role":"leaf","depth":1}}`,
		`{"v":1,"kind":"turn_started","at":3,"run":` + child + `,"n":1,"ord":1,"budget":{"turns":1}}`,
		`{"v":1,"kind":"posted","at":4,"run":` + child + `,"class":2,"ord":2,"id":"m","text":"faster","from":"agent:main:main"}`,
		`{"v":1,"kind":"taken","at":4,"run":` + child + `,"n":1,"ord":2}`,
		`{"v":1,"kind":"turn_ended","at":5,"run":` + child + `,"state":5,"n":1,"answer":{"text":"42","files":[{"name":"f"}]},"join":{"left":1,"good":0}}`,
		`{"v":1,"kind":"run_ended","at":6,"run":` + child + `,"state":5,"flags":6,"num":7}`,
		`{"v":1,"kind":"deferred","at":7,"ord":1,"until":9,"text":"down"}`,
		`{"v":1,"kind":"blocked","at":9,"ord":1,"text":"down"}`,
		`{"v":1,"kind":"snapshot","at":9,"image":{"epoch":1,"total":1,"nextOut":1,"runs":[{"spec":{"key":"agent:main:main","agent":"main"},"state":3,"inbox":[{"ord":1,"class":4,"from":` + child + `}],"join":{"left":1},"open":{"n":1}}],"outbox":[{"ord":1,"run":` + child + `,"reply":true,"route":{}}]}}`,
	}
	f.Add([]byte(strings.Join(lines, "\n")))
	f.Add([]byte(lines[len(lines)-1]))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []session.Entry
		for i, line := range bytes.Split(data, []byte("\n")) {
			list = append(list, session.Entry{Seq: session.Seq(i + 1), Payload: session.Raw(line)})
		}
		v, bad := viewEntries(t, "fuzzed", list)
		if bad == nil {
			require.Equal(t, list[len(list)-1].Seq, v.Last)
			asJSON(t, v)
		}
	})
}

// R16: a journal whose first entry is missing is refused by every reader, also where each of the
// other entries could have happened by itself.
func TestJournalWithoutItsFirstEntryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		for range 2 { // the second life has an epoch of its own
			s := openSupervisor(t, spawn.Config{Store: store, Runner: &spawntest.Runner{}})
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "hello"})),
			)
			synctest.Wait()
		}
		var list []session.Entry
		for e, err := range asWritten(store.Journal.Read(t.Context(), topKey, 0)) {
			require.NoError(t, err)
			list = append(list, e)
		}
		require.NoError(t, spawntest.Audit(entriesOf(list)))
		require.Greater(t, len(list), 3)
		for n := 2; n < 2*len(list); n++ {
			from := n / 2
			rest := list[from:]
			if n%2 == 0 {
				rest = rest[:1]
			}
			_, bad := viewEntries(t, "without its first entry", rest)
			require.NotNil(t, bad, from)
			require.ErrorIs(t, bad, session.ErrCorrupt)
			require.ErrorIs(t, spawntest.Audit(entriesOf(rest)), session.ErrCorrupt)

			broken := session.NewMemory()
			_, err := broken.Journal.Append(t.Context(), topKey, 0,
				session.Batch{Entries: rest, Due: time.Now()})
			require.NoError(t, err)
			err = spawn.Settle(t.Context(), broken, "key", spawn.SettleRetry)
			require.ErrorIs(t, err, session.ErrCorrupt)
			s := openSupervisor(t, spawn.Config{Store: broken, Runner: &spawntest.Runner{}})
			_, err = s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "more"})
			require.ErrorIs(t, err, session.ErrCorrupt)
		}
	})
}
