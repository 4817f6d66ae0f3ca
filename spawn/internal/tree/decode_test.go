package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// R17: every fact that AppendJSON writes is decoded by hand, and is what encoding/json makes of it.
func TestDecoderDecodesWhatIsWritten(t *testing.T) {
	r := filler{rand.New(rand.NewPCG(3, 4))}
	var d Decoder
	for range raced(50, 5) {
		for k := Opened; k < kinds; k++ {
			want := r.fact(k)
			data, err := want.AppendJSON(nil)
			require.NoError(t, err)
			require.True(t, d.scan(data), "%s", data)
			got, err := d.Fact(session.Raw(data))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.LessOrEqual(t, len(d.shared.texts), maxWords)
}

// R17: no member is left to encoding/json.
func TestDecoderKnowsEveryMember(t *testing.T) {
	for _, m := range membersOf(reflect.TypeFor[wireFact]()) {
		w := &wireFact{V: Version, Kind: "opened"}
		m.set(reflect.ValueOf(w).Elem())
		w.V, w.Kind = Version, "opened"
		data, err := json.Marshal(w)
		require.NoError(t, err)
		var d Decoder
		require.True(t, d.scan(data), "%s must be in decode.go or decodeimage.go: %s", m.path, data)
		require.Equal(t, w.fact(), &d.fact, m.path)
	}
}

// What is not written as AppendJSON writes it goes to encoding/json, which decides.
func TestDecoderLeavesTheRest(t *testing.T) {
	for _, data := range []string{
		``, ` {"v":1,"kind":"opened","at":1}`, `{"v":1,"kind":"opened","at": 1}`,
		`{"v":1,"kind":"opened","at":null}`, `{"v":1,"kind":"opened","AT":1}`,
		`{"v":1,"kind":"opened","at":01}`, `{"v":1,"kind":"opened","at":1.0}`,
		`{"v":1,"kind":"opened","at":1e3}`, `{"v":1,"kind":"opened","n":-1}`,
		`{"v":1,"kind":"opened","n":4294967296}`, `{"v":1,"kind":"opened","num":18446744073709551616}`,
		`{"v":1,"kind":"opened","at":-9223372036854775808}`, `{"v":1,"kind":"opened","state":256}`,
		`{"v":1,"kind":"opened","text":"` + "\xff" + `"}`, `{"v":1,"kind":"opened","text":"` + "\n" + `"}`,
		`{"v":1,"kind":"opened","text":"\x"}`, `{"v":1,"kind":"opened","text":{"base64":"%"}}`,
		`{"v":1,"kind":"opened","text":"`, `{"v":1,"kind":"opened","text":"\`,
		`{"v":1,"kind":"opened","at":1,}`, `{"v":1,"kind":"opened","at":1}x`, `{"v":1,"kind":"opened"`,
		`{"v":1,"kind":"opened","mood":1}`, `{"v":1,"kind":"opened","run":"nonsense"}`,
		`{"v":1,"kind":"turn_ended","answer":{"usage":{"cost":.5}}}`,
		`{"v":1,"kind":"turn_ended","answer":{"usage":{"cost":1e999}}}`,
		`{"v":3,"kind":"opened"}`, `{"v":0,"kind":"opened"}`, `{"kind":"opened"}`, `{"v":1}`,
		`{"v":1,"kind":"married"}`, `{"v":1,"kind":"opened","route":[]}`, `{"v":1,"kind":"opened","join":{"keys":{}}}`,
		`{"v":1,"kind":"admitted","spec":{"announce":1}}`, `{"v":1,"kind":"admitted","spec":{"role":"king"}}`,
		`{"v":1,"kind":"admitted","spec":{"extra":"%"}}`,
	} {
		var d Decoder
		require.False(t, d.scan([]byte(data)), "%s", data)
		got, err := d.Fact(session.Raw(data))
		want, wantErr := DecodeFact([]byte(data))
		require.Equal(t, want, got, data)
		require.Equal(t, wantErr, err, data)
	}
}

// Grants, routes and words that are equal are in memory once, and the id of a run is a part of its
// key.
func TestDecoderSharesWhatIsEqual(t *testing.T) {
	var d Decoder
	var specs []*Spec
	for _, id := range []string{"a", "b"} {
		f := admitted(&Spec{
			ID:       id,
			Key:      session.Must(top.Child("main", id)),
			Parent:   top,
			Grant:    &Grant{Agent: "main", Tools: []string{"read", "exec"}},
			SpecMore: &SpecMore{Route: &session.Route{Channel: "irc"}},
		})
		data, err := f.AppendJSON(nil)
		require.NoError(t, err)
		got, err := d.Fact(session.Raw(data))
		require.NoError(t, err)
		specs = append(specs, got.Spec)
	}
	require.Same(t, specs[0].Grant, specs[1].Grant)
	require.Same(t, specs[0].Route(), specs[1].Route())
	require.NotEqual(t, specs[0].ID, specs[1].ID)
}

// hasTwice reports whether an object in data has two members with one name. The last of them counts
// for a Decoder, and encoding/json merges them.
func hasTwice(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	var value func() bool
	value = func() bool {
		token, err := d.Token()
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
		open, _ := token.(json.Delim)
		names := make(map[json.Token]bool)
		for d.More() {
			if open == '{' {
				name, err := d.Token()
				if err != nil || names[name] {
					return true
				}
				names[name] = true
			}
			if value() {
				return true
			}
		}
		if open != 0 {
			_, _ = d.Token()
		}
		return false
	}
	return value()
}

// FuzzDecoder decodes bytes as a fact: what is decoded by hand is what encoding/json makes of it.
func FuzzDecoder(f *testing.F) {
	r := filler{rand.New(rand.NewPCG(5, 6))}
	for range 3 {
		for k := Opened; k < kinds; k++ {
			data, err := r.fact(k).AppendJSON(nil)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		if !d.scan(data) || hasTwice(data) {
			return
		}
		w := new(wireFact)
		require.NoError(t, json.Unmarshal(data, w))
		require.Equal(t, w.fact(), &d.fact)
	})
}

// R17: the runs of a large image are read in parts at the same time, and are those that were
// written.
func TestDecoderReadsPartsOfAnImage(t *testing.T) {
	r := filler{rand.New(rand.NewPCG(7, 8))}
	image := &Image{}
	for len(image.Runs) < 2_000 {
		s := RunState{Spec: &Spec{
			ID:       "x",
			Key:      session.Must(top.Child("main", "x")),
			Parent:   top,
			Task:     Text(strings.Repeat(string(betweenRuns)+"x", r.IntN(400))),
			Grant:    &Grant{Agent: "main"},
			SpecMore: &SpecMore{Label: `},{"spec":{`},
		}}
		image.Runs = append(image.Runs, s)
	}
	f := snapshotOf(image)
	data, err := f.AppendJSON(nil)
	require.NoError(t, err)
	begin := bytes.Index(data, []byte(`{"spec"`))
	for parts := raced(1, 4); parts < 5; parts++ {
		s := &scanner{data: data, pos: begin, shared: &shared{once: true}, apart: apart}
		cuts := s.cutRuns(parts)
		require.Len(t, cuts, parts-1)
		got := s.runsApart(cuts)
		require.False(t, s.failed)
		require.True(t, reflect.DeepEqual(image.Runs, got))
	}
	d := Decoder{Apart: apart, Parts: 3}
	require.True(t, d.scan(data))

	for _, at := range []int{len(data) / 2, begin, len(data) * 9 / 10}[:raced(3, 1)] {
		broken := bytes.Clone(data)
		at += bytes.Index(data[at:], betweenRuns)
		copy(broken[at:], `]`)
		require.False(t, d.scan(broken), "at %d", at)
	}
}

// apart calls functions at the same time.
func apart(work []func()) {
	var wg sync.WaitGroup
	for _, f := range work {
		wg.Go(f)
	}
	wg.Wait()
}
