package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// fieldSet is a set of names of fields of a Fact.
type fieldSet map[string]bool

// factTable reads the table in the comment of Fact: the fields of each kind, without Kind and At.
var factTable = sync.OnceValues(func() (map[Kind]fieldSet, error) {
	source, err := os.ReadFile("fact.go")
	if err != nil {
		return nil, err
	}
	row := regexp.MustCompile(`(?m)^//\t(\w+|) +(\w+): `)
	table := make(map[Kind]fieldSet)
	var kind Kind
	for _, m := range row.FindAllStringSubmatch(string(source), -1) {
		name, field := m[1], m[2]
		if name != "" {
			if kind = kindOf(snake(name)); kind == 0 || table[kind] != nil {
				return nil, fmt.Errorf("the table of facts has the kind %q, unknown or twice", name)
			}
			table[kind] = make(fieldSet)
		}
		if _, ok := reflect.TypeFor[Fact]().FieldByName(field); !ok || table[kind][field] {
			return nil, fmt.Errorf("table of facts: %v with %q, unknown or twice", kind, field)
		}
		table[kind][field] = true
	}
	return table, nil
})

// snake returns the name of a kind as the journal has it: TurnEnded is turn_ended.
func snake(name string) string {
	words := regexp.MustCompile(`[A-Z][a-z]*`).FindAllString(name, -1)
	return strings.ToLower(strings.Join(words, "_"))
}

// fieldsOf returns the fields that are set in a fact, without Kind and At.
func fieldsOf(f *Fact) fieldSet {
	set := make(fieldSet)
	for _, part := range [...]any{f, f.more()} {
		for field, v := range reflect.ValueOf(part).Elem().Fields() {
			if field.Name != "Kind" && field.Name != "At" && !field.Anonymous && !v.IsZero() {
				set[field.Name] = true
			}
		}
	}
	return set
}

// checkFact compares a fact that was decided with the table. Every history and every scenario calls
// it for each of its facts.
func checkFact(f *Fact) error {
	table, err := factTable()
	if err != nil {
		return err
	}
	for field := range fieldsOf(f) {
		if !table[f.Kind][field] {
			return fmt.Errorf("%v has %s, which the table of facts does not have", f.Kind, field)
		}
	}
	return nil
}

// undecided are kinds of which no decision makes use yet.
var undecided []Kind

// A session whose revival begins is as one that is being archived. An earlier library recorded that
// it was back at once.
func TestReviveBeginsAsAnArchive(t *testing.T) {
	for kind, archiving := range map[Kind]int64{ReviveBegun: 1, Unarchived: 0} {
		for _, fits := range []bool{true, false} {
			spec := &Spec{Key: session.Must(top.Child("main", "a")), Parent: top, Grant: &Grant{}}
			s := RunState{Spec: spec, State: OK, Archiving: archiving}
			if !fits {
				s.Archiving = 1 - archiving
			}
			tr := New(top, &Options{})
			require.NoError(t, tr.Apply(&Fact{Kind: Opened, At: 1, Num: 1}))
			f := snapshotOf(&Image{Runs: []RunState{s}})
			f.Kind, f.At, f.Run = kind, 2, s.Spec.Key
			require.Equal(t, fits, tr.Apply(f) == nil, "%v with %d", kind, s.Archiving)
			require.Equal(t, fits && kind == Unarchived, tr.Run(s.Spec.Key).IsBack())
		}
	}
}

// TestFactTable checks that the table has every kind and that facts have each of its fields.
func TestFactTable(t *testing.T) {
	skipUnderRace(t)
	table, err := factTable()
	require.NoError(t, err)
	seen := make(map[Kind]fieldSet)
	for k := Opened; k < kinds; k++ {
		require.Contains(t, table, k)
		seen[k] = make(fieldSet)
	}
	note := func(f *Fact) {
		for field := range fieldsOf(f) {
			seen[f.Kind][field] = true
		}
	}

	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, name := range names {
		script, err := os.ReadFile(name)
		require.NoError(t, err)
		s := newScene()
		s.log.seen = note
		s.play(script)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		d := newDriver(data)
		d.log.seen = note
		require.NoError(t, d.run())
	}
	s := newScene()
	s.log.seen = note
	s.opt.Replies = true
	for _, c := range []Command{
		&Open{Writer: "w"}, &Post{To: top, Text: "hello", Route: &session.Route{Channel: "chat"}},
		Granted{Run: top},
		&TurnDone{Run: top, N: 1, Answer: &Result{Text: "hi", Reply: "hi"}, Pos: 1},
		Restart{Run: top, SessionID: "next", ID: "m"},
	} {
		require.NotContains(t, s.do(c), "VIOLATION")
	}
	table = maps.Clone(table)
	for _, k := range undecided {
		delete(table, k)
		delete(seen, k)
	}
	require.Equal(t, table, seen)
}
