package tree

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// requireByHand fails unless what is written by hand is what encoding/json makes of the same image.
func requireByHand(t *testing.T, m *Image, msg ...any) {
	t.Helper()
	want, wantErr := json.Marshal(m)
	got, err := m.appendJSON([]byte("before "))
	if wantErr != nil {
		require.Error(t, err, msg...)
		return
	}
	require.NoError(t, err, msg...)
	require.Equal(t, "before "+string(want), string(got), msg...)
}

// R17: every member of an image is written by hand as encoding/json writes it: alone, and in its
// order among all of them.
func TestImageIsEncodedByHand(t *testing.T) {
	var all Image
	for _, m := range membersOf(reflect.TypeFor[Image]()) {
		var one Image
		m.set(reflect.ValueOf(&one).Elem())
		requireByHand(t, &one, "%s must be in encodeimage.go or encode.go", m.path)
		m.set(reflect.ValueOf(&all).Elem())
		requireByHand(t, &all, m.path)
	}
	requireByHand(t, &Image{})
	requireByHand(t, &Image{Runs: []RunState{}})
}

// Package encoding/json writes a specification by the same hand. So each of its members is looked
// for in what it writes of a type that has none.
func TestSpecIsEncodedByHand(t *testing.T) {
	type plain Spec
	for _, m := range membersOf(reflect.TypeFor[Spec]()) {
		s := &Spec{Grant: new(Grant)}
		m.set(reflect.ValueOf(s).Elem())
		if s.Role == 0 {
			s.Role = session.RoleLeaf
		}
		want, err := json.Marshal((*plain)(s))
		require.NoError(t, err)
		got, err := s.appendJSON(nil)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), m.path)
	}
}

// What encoding/json refuses is refused wherever it stands in an image, as CheckJSON says.
func TestImageThatCannotBeEncoded(t *testing.T) {
	n := 0
	for _, m := range membersOf(reflect.TypeFor[Image]()) {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			image := &Image{}
			v := m.set(reflect.ValueOf(image).Elem())
			switch {
			case strings.HasSuffix(m.path, ".cost"):
				v.SetFloat(bad)
			case strings.HasSuffix(m.path, ".role"):
				v.SetUint(200)
			default:
				continue
			}
			n++
			_, err := json.Marshal(image)
			require.Error(t, err, m.path)
			_, err = image.appendJSON(nil)
			require.Error(t, err, m.path)
			f := snapshotOf(image)
			_, err = f.AppendJSON(nil)
			require.Error(t, err, m.path)
			require.Error(t, f.CheckJSON(), m.path)
		}
	}
	require.Greater(t, n, 30)
}

// R17: strings and texts are escaped by hand as encoding/json escapes them.
func TestStringsAreEncodedByHand(t *testing.T) {
	list := append(slices.Clone(texts), "", "\ufffd", "\u2027\u2028\u2029\u202a", "\xe2\x80", "\xed\xa0\x80")
	for c := range 256 {
		list = append(list, string([]byte{byte(c)}), string([]byte{'a', byte(c), 'b', byte(c)}),
			string(rune(c))+"\n")
	}
	for _, s := range list {
		want, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, "before "+string(want), string(appendString([]byte("before "), s)))
		want, err = json.Marshal(Text(s))
		require.NoError(t, err)
		require.Equal(t, "before "+string(want), string(Text(s).appendJSON([]byte("before "))))
	}
}

// hollow makes about half of the lists and maps that are nil empty, and fills the maps that it
// leaves.
func (r filler) hollow(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.hollow(v.Elem())
		}
	case reflect.Slice:
		if v.IsNil() && r.IntN(2) == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			r.hollow(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			text := func() reflect.Value { return reflect.ValueOf(texts[r.IntN(len(texts))]) }
			v.SetMapIndex(text(), text())
		}
	case reflect.Float64:
		costs := []float64{
			0, math.Copysign(0, -1), 1e-7, -1e-7, 1e-6, 0.1, 12.5, 1e20, 1e21, -1e21, 5e-324,
			math.MaxFloat64,
		}
		v.SetFloat(costs[r.IntN(len(costs))])
	case reflect.String:
		if r.IntN(2) == 0 {
			v.SetString(texts[r.IntN(len(texts))])
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[session.Key]() {
			return
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				r.hollow(f)
			}
		}
	}
}

// R17: images with anything in them are written by hand as encoding/json writes them.
func TestRandomImagesAreEncodedByHand(t *testing.T) {
	r := filler{rand.New(rand.NewPCG(15, 16))}
	for range raced(300, 20) {
		image := new(Image)
		r.fill(reflect.ValueOf(image).Elem())
		requireByHand(t, image)
		r.hollow(reflect.ValueOf(image).Elem())
		requireByHand(t, image)
	}
}

// FuzzImage reads bytes as an image: what is written of it by hand is what encoding/json writes.
func FuzzImage(f *testing.F) {
	r := filler{rand.New(rand.NewPCG(17, 18))}
	for range 10 {
		image := new(Image)
		r.fill(reflect.ValueOf(image).Elem())
		data, err := json.Marshal(image)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		image := new(Image)
		if json.Unmarshal(data, image) != nil {
			return
		}
		requireByHand(t, image)
	})
}

// manyRuns returns a tree with that many runs, as the top-level session of a chat has them: each
// was spawned under a key of its own and has been told something, two of three have ended, and
// every tenth one reads what was said meanwhile.
func manyRuns(tb testing.TB, n int) *Tree {
	s := newScene()
	s.rules.Subagents = policy.Subagents{MaxChildren: n, MaxConcurrent: n}
	s.run("open")
	decide := func(c Command) {
		_, err := s.tree.Decide(c, s.now)
		require.NoError(tb, err)
		s.tree.Take()
	}
	for i := range n {
		id := fmt.Sprintf("6f9619ff-8b86-4d01-b42d-%012x", i)
		key := session.Must(top.Child("main", id))
		decide(&Post{To: top, ID: "message-" + id, Text: "please count my files"})
		decide(&Spawn{
			Parent: top, ID: id, Key: "step-" + id, Label: "count the files", Announce: true,
			Task: "Count the files of the directory.\nSay which of them is the largest one.",
		})
		decide(Granted{Run: key})
		if i%10 == 0 {
			decide(&Steer{To: key, ID: "steer-" + id, Text: "and the hidden ones"})
		}
		if i%3 > 0 {
			decide(&TurnDone{Run: key, N: 1, Answer: &Result{
				Text: "There are 42 files.\n\nThe largest one is \"data.db\", of 3 MB.", Model: "m",
				Usage: Usage{Input: 1234, Output: 56, CacheRead: 4096, Cost: 0.00125},
			}})
		}
	}
	require.Equal(tb, n+1, s.tree.runs.Len())
	return s.tree
}

// BenchmarkSnapshot makes the image of a tree with 1,000 runs, and encodes it by hand and by
// reflection.
func BenchmarkSnapshot(b *testing.B) {
	tr := manyRuns(b, 1000)
	f := snapshotOf(tr.Image())
	buf, err := f.AppendJSON(nil)
	require.NoError(b, err)
	for name, write := range map[string]func() (int, error){
		"image": func() (int, error) { return len(tr.Image().Runs), nil },
		"by=hand": func() (int, error) {
			data, err := f.AppendJSON(buf[:0])
			return len(data), err
		},
		"by=reflection": func() (int, error) {
			data, err := json.Marshal(f.Image())
			return len(data), err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := write(); n == 0 || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Logf("%d bytes", len(buf))
}
