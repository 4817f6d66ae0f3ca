package route

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// notSent are the fields that only one process can know. They do not cross.
var notSent = []string{"Answers", "AskedOf", "ValidModel", "Data"}

// fill sets every field of v that crosses to a value that is not zero, and is not that of another
// field of its type.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case session.Key:
		key := session.Must(session.NamedKey("main", fmt.Sprint("k", *n)))
		v.Set(reflect.ValueOf(key))
		return
	case session.File:
		f := session.File{Hash: fmt.Sprintf("%064x", *n), Size: int64(*n)}
		v.Set(reflect.ValueOf(f))
		return
	case session.PartKind:
		v.SetString("image")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(notSent, f.Name) {
				fill(t, v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n, " \u2028 \ufffd \\ufffd"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(*n%3 + 1))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		t.Fatalf("no value of %s", v.Type())
	}
}

// Every operation arrives as it was sent, with each of its fields, and with none of them.
func TestOperationsRoundTrip(t *testing.T) {
	for _, o := range ops {
		t.Run(o.name, func(t *testing.T) {
			full, empty := reflect.New(o.of).Elem(), reflect.New(o.of).Elem()
			n := 0
			fill(t, full, &n)
			if o.of.Kind() == reflect.Pointer {
				empty.Set(reflect.New(o.of.Elem()))
			}
			if wait, ok := reflect.TypeAssert[*PostAndWait](empty); ok {
				wait.Post = new(tree.Post)
			}
			for _, v := range []reflect.Value{full, empty} {
				want := Request{Op: v.Interface(), Again: true, Left: time.Minute}
				data, err := EncodeRequest(want)
				require.NoError(t, err)
				got, err := DecodeRequest(data)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			_, err := DecodeRequest(fmt.Appendf(nil, `{"v":1,"op":%q,"args":null}`, o.name))
			if o.of.Kind() == reflect.Pointer {
				require.Error(t, err, "an operation without arguments")
			}
		})
	}
}

// A text of a task or a message is kept byte for byte. Others that are not UTF-8 are refused.
func TestTextsThatAreNotUTF8(t *testing.T) {
	data, err := EncodeRequest(Request{Op: &tree.Post{Text: "a\xff"}})
	require.NoError(t, err)
	got, err := DecodeRequest(data)
	require.NoError(t, err)
	require.Equal(t, &tree.Post{Text: "a\xff"}, got.Op)
	for _, id := range []string{"\xff", `\` + "\xff", `\\` + "\xff"} {
		_, err = EncodeRequest(Request{Op: &tree.Post{ID: id}})
		var wrong *tree.InputError
		require.ErrorAs(t, err, &wrong, "%q", id)
	}
}

// What a process of another version asks is refused, and so is everything else.
func TestRequestsThatAreNotKnown(t *testing.T) {
	for _, data := range []string{`{"v":2,"op":"post","args":{}}`, `{"v":1,"op":"x","args":{}}`} {
		_, err := DecodeRequest([]byte(data))
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, data)
	}
	for _, data := range []string{
		"", "null", "{", `{"v":1,"op":"post"}`, `{"v":1,"op":"post","args":[]}`,
		`{"v":1,"op":"spawn","args":{}}`, `{"v":1,"op":"post_and_wait","args":{}}`,
	} {
		_, err := DecodeRequest([]byte(data))
		require.Error(t, err, data)
	}
	_, err := DecodeAnswer([]byte(`{"v":2}`))
	require.Error(t, err)
	_, err = EncodeRequest(Request{Op: &tree.Open{}})
	require.Error(t, err)
	data, err := EncodeRequest(Request{Op: tree.Ready{}})
	require.NoError(t, err)
	more := bytes.Replace(data, []byte(`"args":{`), []byte(`"later":1,"args":{"Later":2,`), 1)
	_, err = DecodeRequest(more)
	require.NoError(t, err, "a field that was added later")
}

// The names of operations and of their fields stay: processes of two versions share an engine.
func TestNamesStay(t *testing.T) {
	var b strings.Builder
	for _, o := range ops {
		v := reflect.New(o.of).Elem()
		n := 0
		fill(t, v, &n)
		data, err := EncodeRequest(Request{Op: v.Interface()})
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s repeats=%t\n%s\n", o.name, o.repeats, data)
	}
	path := filepath.Join("testdata", "requests.golden")
	if os.Getenv("OFFSHOOT_UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// notRouted are the commands that no other process sends, and why.
var notRouted = map[string]string{
	"Open": "the owner", "Granted": "the owner", "TurnDone": "the owner", "Settle": "the owner",
	"ArchiveDone": "the owner", "RestoreDone": "the owner", "Tick": "the owner",
	"Compact": "the owner", "ShutDown": "the owner", "NotBegun": "the owner", "Leave": "the owner",
	"UnbindDone": "the owner", "DropDone": "the owner",
	"Say": "a turn", "Report": "a turn", "InTurn": "a turn", "Take": "a turn", "Reserve": "a turn",
	"Keep": "a turn", "Hold": "a turn", "Reach": "a turn", "KeepSkills": "a turn", "Hear": "a turn",
	"Restart": "as Reset", "Condense": "as Compact of this package", "Stop": "as Stop",
	"Discard": "as Delete", "Revive": "as Revive",
	"AnnounceRest": "as Rest", "SendOut": "as SendOut of this package",
}

// Every command is routed, or there is a reason why not.
func TestEveryCommandIsDecidedOn(t *testing.T) {
	routed := make(map[string]bool)
	for _, o := range ops {
		of := o.of
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		routed[of.String()] = true
	}
	paths, err := filepath.Glob("../tree/*.go")
	require.NoError(t, err)
	seen := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "command" || f.Recv == nil {
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			name := of.(*ast.Ident).Name
			_, not := notRouted[name]
			assert.NotEqual(t, not, routed["tree."+name], "tree.%s: a row, or a reason", name)
			seen++
		}
	}
	require.Greater(t, seen, 30)
}

// fieldError is a type of errors with fields.
type fieldError struct{ A, B string }

func (e *fieldError) Error() string        { return e.A + e.B }
func (e *fieldError) Is(target error) bool { return target == errHidden }

var errHidden = errors.New("hidden")

// An error is the same for errors.Is and errors.As, and has its text. What is not in the list is
// left out.
func TestErrorsCross(t *testing.T) {
	sentinel, other := errors.New("one"), errors.New("two")
	table := Errors{
		Is("one", sentinel), Is("two", other), As[fieldError]("of"), As[policy.Refusal]("refusal"),
	}
	require.Nil(t, table.Encode(nil))
	require.NoError(t, table.Decode(nil))
	refusal := &policy.Refusal{Rule: policy.RuleDepth, Asked: "2", Limit: "1"}
	err := fmt.Errorf("x: %w: %w", fmt.Errorf("y: %w", sentinel),
		errors.Join(&fieldError{"a", "b"}, refusal, errors.New("plain")))
	data, merr := EncodeAnswer(Answer{Value: []byte(`{"k":1}`), Err: table.Encode(err)})
	require.NoError(t, merr)
	answer, merr := DecodeAnswer(data)
	require.NoError(t, merr)
	require.JSONEq(t, `{"k":1}`, string(answer.Value))
	got := table.Decode(answer.Err)
	require.EqualError(t, got, err.Error())
	require.ErrorIs(t, got, sentinel)
	require.ErrorIs(t, got, errHidden)
	require.NotErrorIs(t, got, other)
	require.ErrorIs(t, got, &policy.Refusal{Rule: policy.RuleDepth})
	of, ok := errors.AsType[*fieldError](got)
	require.True(t, ok)
	require.Equal(t, &fieldError{"a", "b"}, of)
	later := table[:0].Decode(answer.Err) // its codes are of a later version
	require.EqualError(t, later, err.Error())
	require.NotErrorIs(t, later, sentinel)
}
