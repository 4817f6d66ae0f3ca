package tree

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Run keeps all of its state: each member alone, and all of them. The state that it gives back
// shares nothing that changes.
func TestRunKeepsItsState(t *testing.T) {
	keeps := func(want RunState) {
		t.Helper()
		want.WasAsked = nil // is read as Asked
		require.Equal(t, want, NewRun(want).state())
	}
	for _, m := range membersOf(reflect.TypeFor[RunState]()) {
		s := RunState{Spec: &Spec{Key: top, Parent: top, Grant: &Grant{}}}
		m.set(reflect.ValueOf(&s).Elem())
		keeps(s)
	}
	r := filler{rand.New(rand.NewPCG(9, 10))}
	for range 100 {
		s := RunState{}
		r.fill(reflect.ValueOf(&s).Elem())
		s.Spec = &Spec{Key: top, Parent: r.key(), Grant: &Grant{}}
		keeps(s)
	}
}

// A state that was taken of a Run stays as it is when the run changes.
func TestStateOfARunDoesNotChange(t *testing.T) {
	r := NewRun(RunState{
		Spec: &Spec{Key: top, Grant: &Grant{}}, Open: new(OpenTurn), Join: new(Join),
		Inbox: []Input{{Ord: 1}}, Past: []Past{{Turns: 1}}, Bound: []Conversation{{At: 1}},
	})
	r.recordUsage(&Result{Usage: Usage{Input: 1}}, 0)
	r.Open.startedIn = 7
	state := r.state()
	require.Zero(t, state.Open.startedIn)
	before, err := json.Marshal(state)
	require.NoError(t, err)
	r.Spec.SessionID, r.Open.N, r.Join.Left, r.Inbox[0].Ord = "x", 2, 2, 2
	r.Past[0].Turns, r.Bound[0].At = 2, 2
	r.recordUsage(&Result{Usage: Usage{Input: 1}}, 0)
	r.setReason("why")
	r.setAsked([]Asked{{}})
	after, err := json.Marshal(state)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	changed, err := json.Marshal(r.state())
	require.NoError(t, err)
	require.NotEqual(t, string(before), string(changed))
}

// The memory of a turn that has ended is that of the next one, which has nothing of it.
func TestTurnsReuseMemory(t *testing.T) {
	tr := New(top, new(Options))
	o := tr.work().spareTurns.Take()
	*o = OpenTurn{N: 1, Shares: []Share{{}}, Shutdown: true}
	tr.work().spareTurns.Keep(o)
	r := tr.root
	r.Spec.SessionID = "s"
	require.NoError(t, tr.applyTurnStarted(r, &Fact{Kind: TurnStarted, Run: top, N: 1, At: 5}))
	require.Same(t, o, r.Open)
	require.Equal(t, &OpenTurn{N: 1, First: 1, Started: 5, Empty: true}, r.Open)
	tr.work().spareTurns.Keep(new(OpenTurn))
	tr.DropSpare()
	require.Empty(t, slices.Collect(tr.work().spareTurns.All))
}

// The memory of a completion that has arrived is that of the next one, which has nothing of it.
// That of what else leaves the tree is not used again: others may have it for a while.
func TestEntriesReuseMemory(t *testing.T) {
	tr := New(top, new(Options))
	e := tr.work().spareEntries.Take()
	tr.recycleEntry(&Entry{Reply: true})
	tr.recycleEntry(&Entry{Event: true})
	tr.recycleEntry(&Entry{Hook: true})
	tr.recycleEntry(&Entry{Sends: true})
	tr.recycleEntry(&Entry{Update: true})
	require.Empty(t, slices.Collect(tr.work().spareEntries.All))
	*e = Entry{Ord: 1, Run: top, Tries: 3, Late: true, Error: "x", mayRepeat: true}
	tr.recycleEntry(e)
	again := tr.work().spareEntries.Take()
	require.Same(t, e, again)
	require.Equal(t, &Entry{}, again)
	tr.recycleEntry(new(Entry))
	tr.DropSpare()
	require.Empty(t, slices.Collect(tr.work().spareEntries.All))
}

// Runs share the parts that they have nothing of. So no line of this package sets a member of one
// by way of a Run, nor takes its address: that goes by ownSpent, ownRare and ownTalk.
func TestSharedPartsAreNotWritten(t *testing.T) {
	info := types.Info{Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	parts := map[string]bool{"spent": true, "rare": true, "talk": true}
	set := func(x ast.Expr) string {
		for {
			switch y := x.(type) {
			case *ast.ParenExpr:
				x = y.X
				continue
			case *ast.SelectorExpr:
				of := info.Selections[y]
				if of == nil || of.Kind() != types.FieldVal {
					return ""
				}
				if s := of.Recv().Underlying(); len(of.Index()) > 1 {
					if p, ok := s.(*types.Pointer); ok {
						s = p.Elem().Underlying()
					}
					if part := s.(*types.Struct).Field(of.Index()[0]).Name(); parts[part] {
						return part + "." + y.Sel.Name
					}
				}
				if _, pointer := of.Recv().Underlying().(*types.Pointer); pointer {
					return ""
				}
				x = y.X // a member of a member
				continue
			}
			return ""
		}
	}
	found := 0
	for _, f := range checkedFiles(t, &info) {
		ast.Inspect(f, func(n ast.Node) bool {
			var written []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				written = n.Lhs
			case *ast.IncDecStmt:
				written = []ast.Expr{n.X}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					written = []ast.Expr{n.X}
				}
			case *ast.SelectorExpr:
				if of := info.Selections[n]; of != nil && len(of.Index()) > 1 {
					found++
				}
			}
			for _, x := range written {
				require.Empty(t, set(x), types.ExprString(x))
			}
			return true
		})
	}
	require.Greater(t, found, 100, "members of embedded structs that are read")
	require.Zero(t, noSpent)
	require.Zero(t, noRare)
	require.Zero(t, noTalk)
}

// checkedFiles returns the files of this package without its tests, with the types of what they
// have in info.
func checkedFiles(t *testing.T, info *types.Info) (list []*ast.File) {
	t.Helper()
	files := token.NewFileSet()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		require.NoError(t, err)
		list = append(list, f)
	}
	cfg := types.Config{Importer: importer.ForCompiler(files, "source", nil)}
	_, err = cfg.Check("tree", files, list, info)
	require.NoError(t, err)
	return list
}

// A Run has room for what most runs have: there may be a great many that wait or have ended. What
// makes it larger belongs to rare or talk, or has its reason in DESIGN.md.
func TestSizeOfARun(t *testing.T) {
	if strconv.IntSize == 64 {
		require.LessOrEqual(t, reflect.TypeFor[Run]().Size(), uintptr(320))
	}
}

// The top-level sessions of an agent share one grant, also those of images.
func TestTopLevelSessionsShareAGrant(t *testing.T) {
	shared := NewTopGrant(top.Agent())
	opt := &Options{TopGrant: func(agent string) *Grant {
		require.Equal(t, top.Agent(), agent)
		return shared
	}}
	born := New(top, opt)
	require.Same(t, shared, born.root.Spec.Grant)
	require.NoError(t, born.Replay(&Fact{Kind: Opened, At: 1, Num: 1, FactMore: &FactMore{ID: "s"}}))
	image := born.Image()
	image.Runs[0].Spec.Grant = NewTopGrant(top.Agent())
	tr := New(top, opt)
	require.NoError(t, tr.Replay(&Fact{Kind: Snapshot, At: 2, FactMore: &FactMore{Image: image}}))
	require.Same(t, shared, tr.root.Spec.Grant)

	image.Runs[0].Spec.Grant.Model = "other" // an earlier library may have written more
	tr = New(top, opt)
	require.NoError(t, tr.Replay(&Fact{Kind: Snapshot, At: 2, FactMore: &FactMore{Image: image}}))
	require.Equal(t, "other", tr.root.Spec.Model)
	require.Empty(t, shared.Model)
}

// A tree that rests keeps no memory for its next batch.
func TestTreeThatRestsHasNoBatch(t *testing.T) {
	tr := New(top, new(Options))
	_, err := tr.Decide(&Open{Writer: "w", SessionID: "s"}, 1)
	require.NoError(t, err)
	tr.DropSpare()
	require.NotNil(t, tr.working, "its facts are not taken")
	facts, _ := tr.Take()
	require.NotEmpty(t, facts)
	tr.DropSpare()
	require.Nil(t, tr.working)
	require.Nil(t, tr.Described(session.Must(top.Child("main", "x"))))
}
