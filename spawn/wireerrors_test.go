package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/route"
)

// wireExamples are the types of errors that cross, by their codes.
var wireExamples = map[string]error{
	"refusal": &policy.Refusal{
		Op: "steer", Rule: policy.RuleDepth, Asked: "2", Limit: "1", Field: "f", Path: "p",
		Removed: []policy.ToolVerdict{{Tool: "exec", Path: "x"}},
	},
	"input":           &InputError{Field: "task", Reason: "it is blank"},
	"limit":           &LimitError{Field: "task", Size: 2, Limit: 1, Unit: "bytes", Path: "Limits.Task"},
	"key_conflict_of": &KeyConflictError{Requester: wireKey, Key: "k", Run: "r", Session: wireKey},
	"name_taken":      &NameTakenError{Requester: wireKey, Name: "n", Run: "r", Session: wireKey},
	"children":        &ChildrenError{Session: wireKey, Live: 2},
	"ended_above":     &EndedError{Session: wireKey, Ended: wireKey},
	"still_running": &StillRunningError{
		Sessions: []session.Key{wireKey}, Deliveries: []session.Key{wireKey},
		Functions: []AskedFunction{{"ValidModel", wireKey}},
	},
	"owned": &session.OwnedError{Claim: session.Claim{
		Root: wireKey, Owner: session.Process{Name: "a", Incarnation: 3}, Epoch: 2,
	}},
	"part":     &session.PartError{Index: 1, Field: "File", Reason: "r"},
	"key":      &session.KeyError{Key: "k", Part: "peer", Offset: 1, Reason: "r"},
	"corrupt":  &session.CorruptError{File: "f", Offset: 3, Reason: "r"},
	"lineage":  &session.LineageError{Key: wireKey, Reason: "r", Missing: true},
	"unknown":  &route.UnknownError{Version: 2, Op: "x"},
	"callback": &CallbackError{"ValidModel", errors.New("x")},
	"veto":     &VetoError{"no", errors.New("x")},
	"panic":    &PanicError{Value: "boom", Stack: []byte("stack")},
	"journal":  &JournalError{Root: wireKey, Seq: 7, Err: errors.New("x")},
}

var wireKey = session.Must(session.MainKey("main"))

// Each error is in another process what it is here, whatever wraps it.
func TestErrorsOfEveryKindCross(t *testing.T) {
	codes := make(map[string]bool)
	for _, r := range wireErrors {
		require.False(t, codes[r.Code], "%s twice", r.Code)
		codes[r.Code] = true
		want := r.Sentinel
		if want == nil {
			want = wireExamples[r.Code]
			require.Error(t, want, "%s has no example", r.Code)
		}
		err := fmt.Errorf("doing: %w", errors.Join(want, errors.New("more")))
		data, merr := json.Marshal(wireErrors.Encode(err))
		require.NoError(t, merr)
		wire := new(route.Error)
		require.NoError(t, json.Unmarshal(data, wire))
		got := wireErrors.Decode(wire)
		require.EqualError(t, got, err.Error(), r.Code)
		for _, other := range wireErrors {
			if other.Sentinel != nil {
				require.Equal(t, errors.Is(err, other.Sentinel), errors.Is(got, other.Sentinel),
					"%s as %s", r.Code, other.Code)
			}
		}
		if r.Sentinel == nil {
			found, ok := wire.Types[r.Code]
			require.True(t, ok, r.Code)
			again := wireErrors.Encode(got)
			require.JSONEq(t, string(found), string(again.Types[r.Code]), r.Code)
			require.NotContains(t, []string{"{}", "null"}, string(found), r.Code)
		}
	}
	refusal := wireErrors.Decode(wireErrors.Encode(wireExamples["refusal"]))
	require.ErrorIs(t, refusal, &policy.Refusal{Rule: policy.RuleDepth})
	// A package that calls the fields of a refusal otherwise is understood here, too.
	err := fmt.Errorf("spawning: %w, so there", &policy.Refusal{
		Op: "spawn", Rule: policy.RuleDepth, Path: "Rules.Subagents.MaxSpawnDepth",
	})
	got := wireErrors.Decode(wireErrors.Encode(err))
	require.EqualError(t, got, err.Error())
	for _, err := range []error{err, got} {
		refused, ok := errors.AsType[*policy.Refusal](err)
		require.True(t, ok)
		refused.Path = "Config." + refused.Path
	}
	require.ErrorContains(t, got, "set at Config.Rules.Subagents.MaxSpawnDepth")
	require.ErrorContains(t, got, ", so there")
	limit := wireErrors.Decode(wireErrors.Encode(wireExamples["limit"]))
	_, ok := errors.AsType[*InputError](limit)
	require.True(t, ok)
	require.Len(t, wireExamples, strings.Count(readTable(t), "route.As[")+
		strings.Count(readTable(t), "route.Via("))
}

// notWired are the errors that no call for a tree returns, and why.
var notWired = map[string]string{
	"spawn.ErrRunning": "of Run", "spawn.ErrShuttingDown": "of Shutdown",
	"spawn.ErrBusy": "for Deliver to return", "spawn.ErrPermanent": "for Deliver to return",
	"spawn.RetryAfterError": "for Deliver to return",
	"spawn.NotBlockedError": "of Settle", "spawn.AmbiguousError": "of Settle",
	"session.ErrNoOwner":  "of Owners",
	"session.ErrReplaced": "of Owners", "session.ErrServing": "of Owners",
	"session.ErrInvalidRequest": "of Owners", "session.ErrInvalidTicket": "of Owners",
	"session.ErrUnfinishedCopy": "of Run",
}

// Every error of the two packages crosses, or there is a reason why it does not.
func TestEveryErrorIsDecidedOn(t *testing.T) {
	table := readTable(t)
	for dir, pkg := range map[string]string{".": "spawn", "../session": "session"} {
		names := exportedErrors(t, dir)
		require.Greater(t, len(names), 10)
		for _, name := range names {
			as := name
			if pkg != "spawn" {
				as = pkg + "." + name
			}
			inTable := regexp.MustCompile(`[ (\[*]` + regexp.QuoteMeta(as) + `[\])) {]`).
				MatchString(table)
			_, not := notWired[pkg+"."+name]
			assert.NotEqual(t, not, inTable, "%s.%s: a row, or a reason", pkg, name)
		}
	}
}

// readTable returns the text of wireErrors.
func readTable(t *testing.T) string {
	data, err := os.ReadFile("operation.go")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(data), "var wireErrors = ")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n}\n")
	return text
}

// exportedErrors returns the exported variables and types of a package that are errors, by their
// names.
func exportedErrors(t *testing.T, dir string) (names []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if group.Tok == token.VAR && strings.HasPrefix(name.Name, "Err") {
							names = append(names, name.Name)
						}
					}
				case *ast.TypeSpec:
					if name := spec.Name.Name; ast.IsExported(name) && strings.HasSuffix(name, "Error") {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

// What is known of a run crosses with its texts byte for byte.
func TestRunsCrossByteForByte(t *testing.T) {
	want := RunInfo{
		ID: "r", Key: wireKey, Root: wireKey, Task: "a\xff", Announcement: "b\xff", Refused: "c\xff",
		Result: Result{Text: "d\xff", JSON: json.RawMessage(`{"a":1}`)}, Label: "l",
	}
	var w, got wireRun
	w.take(want)
	data, err := json.Marshal(&w)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got))
	info := got.run()
	require.Equal(t, want, info)
}
