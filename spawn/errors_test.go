package spawn_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// The prefix of the package stands once in what callers are refused with, and at the beginning.
func TestRefusalsHaveThePrefixOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := spawntest.NewCrashJournal(session.NewMemory().Journal)
		s := openSupervisor(
			t, spawn.Config{Store: &session.Store{Journal: journal}, Runner: instantRunner},
		)
		synctest.Wait()
		ended, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, err)
		synctest.Wait()
		ctx := t.Context()
		unknown := session.Must(topKey.Child("main", session.NewID()))
		refused := map[error]error{
			spawn.ErrEnded:   s.Steer(ctx, topKey, topKey, ended.Ref(), spawn.Incoming{Text: "x"}),
			spawn.ErrRunning: s.Run(ctx),
		}
		for name, err := range map[string]error{
			"find":   errorOf(s.Find(ctx, topKey, refOf(unknown))),
			"runs":   errorOf(s.Runs(ctx, topKey, unknown, true)),
			"wait":   errorOf(s.Wait(ctx, topKey, refsOf(unknown), spawn.JoinOptions{})),
			"root":   errorOf(s.RootOf(ctx, unknown)),
			"retry":  s.Retry(ctx, "none"),
			"cancel": s.CancelTurn(ctx, topKey, unknown),
			"stop":   s.Stop(ctx, topKey, unknown, ""),
			"steer":  s.Steer(ctx, topKey, topKey, refOf(unknown), spawn.Incoming{Text: "x"}),
		} {
			require.ErrorIs(t, err, spawn.ErrNotFound, name)
			requirePrefixOnce(t, err)
		}
		journal.At(journal.Appends()+1, spawntest.FaultFailBefore)
		other := session.Must(session.NamedKey("main", "other"))
		_, refused[spawn.ErrNotRecorded] = s.Post(ctx, other, other, spawn.Incoming{Text: "x"})
		for want, err := range refused {
			require.ErrorIs(t, err, want)
			requirePrefixOnce(t, err)
		}
		for _, err := range []error{
			spawn.ErrBusy, spawn.ErrBudget, spawn.ErrStale, spawn.ErrStopping,
			spawn.ErrUnconfirmed, spawn.ErrUnreadable,
		} {
			requirePrefixOnce(t, err)
		}
	})
}

// refOf returns the name of the present run of a session.
func refOf(key session.Key) spawn.RunRef { return spawn.RunRef{Session: key} }

// refsOf is refOf for several.
func refsOf(keys ...session.Key) (refs []spawn.RunRef) {
	for _, key := range keys {
		refs = append(refs, refOf(key))
	}
	return refs
}

// errorOf returns the error of two results.
func errorOf[T any](_ T, err error) error { return err }

func requirePrefixOnce(t *testing.T, err error) {
	t.Helper()
	require.True(t, strings.HasPrefix(err.Error(), "spawn: "), err)
	require.Equal(t, 1, strings.Count(err.Error(), "spawn: "), err)
}

// An error of the journal that has the prefix itself is shown with one prefix.
func TestJournalErrorHasThePrefixOnce(t *testing.T) {
	err := &spawn.JournalError{Root: topKey, Seq: 3, Err: errors.New("spawn: it is bad")}
	require.EqualError(t, err, `spawn: journal of "agent:main:main", entry 3: it is bad`)
}

// Whatever an exported function or method of spawn and agent returns as an error is named in its
// documentation.
func TestErrorsAreDocumented(t *testing.T) {
	for _, dir := range []string{".", "../agent"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && returnsError(f) {
					require.Regexp(t, `Err[A-Z]|Errors?\b|errors?\s|[Ii]mplements`, f.Doc.Text(),
						"%s: %s", name, f.Name.Name)
				}
			}
		}
	}
}

// returnsError reports whether a function that users call returns an error. UnmarshalText and the
// like have those of their interface.
func returnsError(f *ast.FuncDecl) bool {
	name := f.Name.Name
	if !f.Name.IsExported() || f.Type.Results == nil || strings.HasSuffix(name, "Text") {
		return false
	}
	if f.Recv != nil {
		of := strings.TrimLeft(types.ExprString(f.Recv.List[0].Type), "*")
		if !ast.IsExported(of) {
			return false
		}
	}
	results := f.Type.Results.List
	last, ok := results[len(results)-1].Type.(*ast.Ident)
	return ok && last.Name == "error" && name != "Unwrap" && name != "Err" && name != "Over"
}

// A count of one has a noun in the singular, and a count of several the plural.
func TestCountsAgreeWithTheirNouns(t *testing.T) {
	one, two := []session.Key{topKey}, []session.Key{topKey, topKey}
	for want, err := range map[string]error{
		"1 session has code that has not returned: ":   &spawn.StillRunningError{Sessions: one},
		"2 sessions have code that has not returned: ": &spawn.StillRunningError{Sessions: two},
		"1 delivery has not returned: ":                &spawn.StillRunningError{Deliveries: one},
		"2 deliveries have not returned: ":             &spawn.StillRunningError{Deliveries: two},
	} {
		require.ErrorContains(t, err, want)
	}
	counted := regexp.MustCompile(`%d ([a-z]+s)\b`)
	verbs := []string{"is", "was", "has", "is not"}
	eachLiteral(t, func(place, text string) {
		found := counted.FindStringSubmatch(text)
		if found == nil || slices.Contains(verbs, found[1]) {
			return
		}
		// What is over a limit is more than one, and so is a limit that the source names.
		limited := strings.Contains(text, "the limit is") || strings.Contains(text, "at most %d")
		require.True(t, limited, "%s: take text.Count for %q", place, text)
	})
}

// No error, log line or health report has the names of our internal packages: no text has them, no
// type is printed, and what encoding/json says of our types is put in other words.
func TestTextsHaveNoInternalNames(t *testing.T) {
	internal := regexp.MustCompile(`\b(tree|owner)\.[A-Z]|%T|wireFact`)
	eachLiteral(t, func(place, text string) {
		if text != "%T" || place != "runningturn.go" { // of an error of the caller without a text
			require.NotRegexp(t, internal, text, place)
		}
	})
	for _, entry := range []string{
		`[]`, `1`, `"x"`, `{"v":"1"}`, `{"v":2,"kind":"posted","at":"x"}`, `{`,
		`{"v":1,"kind":"posted","run":7}`, `{"v":1,"kind":"admitted","spec":3}`,
		`{"v":1,"kind":"snapshot","image":{"runs":[{"spec":{"grant":4}}]}}`,
		`{"v":9,"kind":"posted"}`, `{"v":1,"kind":"none"}`, `{"v":1,"kind":"turn_ended","flags":"x"}`,
		`{"v":1,"kind":"opened","state":"x"}`, `{"v":1,"kind":"posted","text":{"base64":"%"}}`,
	} {
		_, err := spawn.View(topKey, func(yield func(session.Entry, error) bool) {
			yield(session.Entry{Seq: 1, Payload: session.Raw(entry)}, nil)
		})
		require.Error(t, err, entry)
		require.NotRegexp(t, `tree\.|owner\.|wireFact|Go value|Go struct`, err.Error())
	}
	_, err := spawn.View(topKey, func(yield func(session.Entry, error) bool) {
		yield(session.Entry{Seq: 1, Payload: otherPayload{}}, nil)
	})
	require.ErrorContains(t, err, "of another program")
}

// otherPayload is a Payload that no library of ours writes.
type otherPayload struct{}

func (otherPayload) AppendJSON(b []byte) ([]byte, error) { return append(b, "{}"...), nil }

// eachLiteral calls f with every string in the sources of spawn and agent, and the file that it
// stands in.
func eachLiteral(t *testing.T, f func(place, text string)) {
	t.Helper()
	for _, dir := range []string{".", "internal/tree", "internal/owner", "../agent"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					f(filepath.Base(name), text)
				}
				return true
			})
		}
	}
}

// S4: a model that cannot be one is refused, because no rule for its provider would hold.
func TestModelThatCannotBe(t *testing.T) {
	for _, model := range []string{" ", "/", "/x", "x/", "a//b", "acme /x", "/acme/x"} {
		_, err := spawn.Open(t.Context(), spawn.Config{
			Store: session.NewMemory(), Runner: instantRunner, Model: model,
		})
		bad, ok := errors.AsType[*spawn.InputError](err)
		require.True(t, ok, "%q: %v", model, err)
		require.Equal(t, "Model", bad.Field)
	}
}
