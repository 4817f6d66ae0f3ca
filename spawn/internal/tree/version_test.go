package tree

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

var (
	writeMembers = flag.Bool("write-members", false, "write testdata/members-of-version-1.txt")
	addFormat    = flag.Bool("add-format", false, "add what is new to testdata/format-of-version-2.txt")
)

const (
	membersOfVersion1 = "testdata/members-of-version-1.txt"
	formatOfVersion2  = "testdata/format-of-version-2.txt"
)

// A member is a JSON member that a fact may have, with the fields that lead to it.
type member struct {
	path   string
	fields [][]int // one index for each struct on the way
}

// membersOf returns the members of a type: those that are structs without an encoding of their own,
// pointers to such and lists of such are followed.
func membersOf(t reflect.Type) (list []member) {
	var walk func(t reflect.Type, path string, fields [][]int)
	walk = func(t reflect.Type, path string, fields [][]int) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue // embedded, or unexported
			}
			m := member{path + name, append(slices.Clone(fields), f.Index)}
			if of := structOf(f.Type); of != nil {
				walk(of, m.path+".", m.fields)
				continue
			}
			list = append(list, m)
		}
	}
	walk(t, "", nil)
	return list
}

// structOf returns the struct whose members are those of a field of type t, or nil for a leaf.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[session.Key]() {
		return nil
	}
	return t
}

// set sets the member in v and returns it. It makes what leads to it: pointers, and lists of one
// element.
func (m member) set(v reflect.Value) reflect.Value {
	for _, index := range m.fields {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			v = first(v)
		}
		for _, i := range index { // embedded pointers, too
			if v.Kind() == reflect.Pointer {
				v = first(v)
			}
			v = v.Field(i)
		}
	}
	setNonZero(v)
	return v
}

// first returns what a pointer points to or the first element of a list, and makes it.
func first(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return v.Elem()
	}
	if v.Len() == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
	return v.Index(0)
}

func setNonZero(v reflect.Value) {
	if v.Type() == reflect.TypeFor[session.Key]() {
		v.Set(reflect.ValueOf(top))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer, reflect.Slice:
		setNonZero(first(v))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	default:
		if v.CanUint() {
			v.SetUint(1)
			return
		}
		v.SetInt(1)
	}
}

// A fact whose members are all of version 1 is written as version 1, so that an earlier library
// reads it. A fact with one member that version 1 lacks is written as version 2, wherever in the
// fact the member stands.
func TestVersionOfMembers(t *testing.T) {
	all := membersOf(reflect.TypeFor[wireFact]())
	if *writeMembers {
		var paths []string
		for _, m := range all {
			paths = append(paths, m.path)
		}
		text := strings.Join(paths, "\n") + "\n"
		require.NoError(t, os.WriteFile(membersOfVersion1, []byte(text), 0o600))
	}
	data, err := os.ReadFile(membersOfVersion1)
	require.NoError(t, err)
	old := strings.Fields(string(data))
	require.Greater(t, len(all), 150)
	for _, m := range all {
		w := new(wireFact)
		m.set(reflect.ValueOf(w).Elem())
		want := 2
		if slices.Contains(old, m.path) {
			want = 1
		}
		require.Equal(t, want, w.fact().version(),
			"%s: a member that version 1 lacks must be in the functions that version calls", m.path)
		old = slices.DeleteFunc(old, func(path string) bool { return path == m.path })
	}
	require.Empty(t, old, "members of version 1 that this library no longer reads")
	for k := Opened; k < kinds; k++ {
		require.Equal(t, k > Snapshot, (&Fact{Kind: k}).version() == 2, "%v", k)
	}
	for bit := Flags(1); bit != 0; bit <<= 1 {
		f := &Fact{Kind: TurnEnded, Flags: bit}
		require.Equal(t, bit > 1<<7, f.version() == 2, "flag %b", bit)
	}
}

// TestFormatOfVersion2: a name that a journal may hold, and a number that stands for one, is the
// same for ever: without it no journal of before could be read. The file lists them all. One that
// is new is added with -add-format, which removes none.
func TestFormatOfVersion2(t *testing.T) {
	data, err := os.ReadFile(formatOfVersion2)
	if !*addFormat {
		require.NoError(t, err)
	}
	written := strings.Split(strings.TrimSpace(string(data)), "\n")
	now := formatNow()
	if *addFormat {
		for _, line := range now {
			if !slices.Contains(written, line) {
				written = append(written, line)
			}
		}
		slices.Sort(written)
		text := strings.TrimSpace(strings.Join(written, "\n")) + "\n"
		require.NoError(t, os.WriteFile(formatOfVersion2, []byte(text), 0o600))
		return
	}
	require.Greater(t, len(written), 300)
	for _, line := range written {
		require.True(t, slices.Contains(now, line),
			"%s: journals have it, and this library reads them otherwise", line)
	}
	for _, line := range now {
		require.True(t, slices.Contains(written, line),
			"%s: it is new, add it with -add-format", line)
	}
}

// formatNow returns what the journals of this library may hold: the members of a fact with what
// they are as JSON, its kinds, and what numbers mean.
func formatNow() (lines []string) {
	fact := reflect.TypeFor[wireFact]()
	for _, m := range membersOf(fact) {
		of := fact
		for _, index := range m.fields {
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			of = of.FieldByIndex(index).Type
		}
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		lines = append(lines, fmt.Sprintf("member %s: %s", m.path, of.Kind()))
	}
	for k := Opened; k < kinds; k++ {
		lines = append(lines, "kind "+k.String())
	}
	for what, names := range map[string][]string{
		"state": stateNames[:], "cause": causeNames[:], "class": ClassNames[:],
	} {
		for i, name := range names {
			lines = append(lines, fmt.Sprintf("%s %d: %s", what, i, name))
		}
	}
	for name, flag := range map[string]Flags{
		"quiet": FlagQuiet, "tell": FlagTell, "out": FlagOut, "silent": FlagSilent,
		"skip": FlagSkip, "cut": FlagCut, "reply": FlagReply, "crashed": FlagCrashed,
		"given up": FlagGivenUp, "compact": FlagCompact, "aside": FlagAside, "thread": FlagThread,
		"untouched": FlagUntouched, "repair": FlagRepair, "hook": FlagHook, "step": FlagStep,
	} {
		lines = append(lines, fmt.Sprintf("flag %d: %s", flag, name))
	}
	for what, n := range map[string]int{
		"rest, keep": int(RestKeep), "rest, stop": int(RestStop),
		"rest, announce": int(RestAnnounce), "told, directly": int(toldDirectly),
		"told, as bound": int(toldAsBound), "told, another": int(toldOther),
		"told, event": int(toldEvent), "deferred, busy": DeferredBusy,
		"deferred, asked": DeferredAsked,
	} {
		lines = append(lines, fmt.Sprintf("%s: %d", what, n))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
