package openclaw

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// write returns the JSON of a value.
func write(t *testing.T, b *bytes.Buffer, v *value) {
	one := func(x any) {
		data, err := json.Marshal(x)
		require.NoError(t, err)
		b.Write(data)
	}
	switch v.kind {
	case kindNull:
		one(nil)
	case kindBool:
		one(v.on)
	case kindNumber:
		one(v.num)
	case kindString:
		one(v.str)
	case kindList:
		b.WriteByte('[')
		for i, x := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			write(t, b, x)
		}
		b.WriteByte(']')
	case kindObject:
		b.WriteByte('{')
		for i, f := range v.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			one(f.name)
			b.WriteByte(':')
			write(t, b, f.value)
		}
		b.WriteByte('}')
	}
}

// all returns a value and all that are in it.
func all(v *value) []*value {
	list := []*value{v}
	for _, x := range v.items {
		list = append(list, all(x)...)
	}
	for _, f := range v.fields {
		list = append(list, all(f.value)...)
	}
	return list
}

// wrongs are values that are wrong in most places.
func wrongs() []value {
	seven := &value{kind: kindNumber, num: 7}
	return []value{
		{kind: kindNull},
		{kind: kindBool},
		{kind: kindNumber, num: -7},
		{kind: kindNumber, num: 7.5},
		{kind: kindString},
		{kind: kindString, str: " "},
		{kind: kindString, str: "${NOPE}"},
		{kind: kindList},
		{kind: kindList, items: []*value{seven, {kind: kindNull}}},
		{kind: kindObject},
		{kind: kindObject, fields: []field{{name: "x", value: seven}, {name: "", value: seven}}},
	}
}

// A value that is wrong, anywhere in a file and beside another one, is an error with a place, and
// not a panic, whatever is made of the rest.
func TestMistakesAnywhere(t *testing.T) {
	names, err := filepath.Glob("testdata/files/*.json5")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	o := Options{
		Home: "/home/me", Env: func(string) (string, bool) { return "", false },
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	}
	r := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	check := func(root *value) {
		var b bytes.Buffer
		write(t, &b, root)
		_, err := Parse(b.Bytes(), o)
		if err == nil {
			return
		}
		wrong++
		list, ok := errors.AsType[FieldErrors](err)
		require.True(t, ok)
		require.NotEmpty(t, list)
		seen := map[string]bool{}
		for _, e := range list {
			require.Positive(t, e.Line)
			require.NotEmpty(t, e.Reason)
			require.False(t, seen[e.Error()], "%s\n%v", b.String(), err)
			seen[e.Error()] = true
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		root, err := decode(data)
		require.NoError(t, err)
		places := all(root)
		for _, at := range places {
			before := *at
			for _, bad := range wrongs() {
				*at = bad
				check(root)
				other := places[r.IntN(len(places))]
				was := *other
				*other = wrongs()[r.IntN(len(wrongs()))]
				check(root)
				*other = was
			}
			*at = before
		}
	}
	require.Greater(t, wrong, 1000)
}
