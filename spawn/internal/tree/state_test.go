package tree

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTransitions says the transition table a second time, the other way round: what may come
// before each state.
func TestTransitions(t *testing.T) {
	before := map[State]string{
		Queued: "none running", Running: "queued waiting", Waiting: "running", Stopping: "queued running waiting",
		OK: "waiting", Failed: "stopping", TimedOut: "stopping", Cancelled: "stopping",
		Interrupted: "stopping", Incomplete: "stopping",
	}
	for to := range states {
		for from := range states {
			want := strings.Contains(" "+before[to]+" ", " "+from.String()+" ")
			r := NewRun(RunState{Spec: &Spec{Key: top}, State: from})
			err := r.transition(to)
			require.Equal(t, want, err == nil, "%v to %v", from, to)
			if want {
				require.Equal(t, to, r.State)
				continue
			}
			var illegal *TransitionError
			require.ErrorAs(t, err, &illegal)
			require.Equal(t, from, r.State, "a refused step changes nothing")
			require.Equal(t, []State{from, to}, []State{illegal.From, illegal.To})
		}
	}
	for s := range states {
		require.Equal(t, s.Terminal(), s >= OK, "%v", s)
		require.Equal(t, s == 0 || !s.Terminal(), transitions[s] != 0, "%v leads nowhere, or on", s)
	}
}

// Every cause leads to a terminal state of its own, but that an answer was refused is a failure,
// too.
func TestCauses(t *testing.T) {
	ends := make(map[State]Cause)
	for c := range causes {
		s := c.endState()
		if c == AnswerRefused {
			require.Equal(t, Failed, s)
			continue
		}
		require.True(t, s.Terminal(), "%v", c)
		require.NotContains(t, ends, s)
		ends[s] = c
		require.Equal(t, c != NoCause, transitions[Stopping].has(s), "%v", c)
	}
	require.Len(t, ends, int(states-OK))
}

// TestDiagram compares the diagram in the package documentation with the table.
func TestDiagram(t *testing.T) {
	doc, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	var in []string
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "//"), "\n")
		line = strings.TrimPrefix(line, "\t")
		if strings.HasPrefix(line, "stateDiagram") || len(in) > 0 && strings.Contains(line, "-->") {
			in = append(in, line)
		}
	}
	require.Equal(t, strings.TrimSpace(Diagram()), strings.Join(in, "\n"),
		"put this into spawn/doc.go:\n%s", Diagram())
}

func TestNames(t *testing.T) {
	require.Equal(t, "State(99)", State(99).String())
	require.Equal(t, "Cause(99)", Cause(99).String())
	require.Equal(t, "Class(99)", Class(99).String())
	require.Equal(t, "EffectKind(99)", EffectKind(99).String())
	require.Equal(t, "unknown", Kind(99).String())
	for k := Opened; k < kinds; k++ {
		require.Equal(t, k, kindOf(k.String()))
	}
	require.Zero(t, kindOf("none"))
}

// 1.6: what the keys of deliveries begin with is fixed at the first Opened, whatever session id the
// top-level session has later, and over a snapshot.
func TestFirstSessionStays(t *testing.T) {
	s := newScene()
	s.play([]byte("options replies=true\nopen session=first\n----\n\nopen session=second\n----\n"))
	require.Equal(t, "first", s.tree.FirstSession())
	require.Empty(t, s.tree.Image().FirstSession, "it is that of the session")

	s.tree.root.Spec.SessionID = "later" // as a reset will set it
	image := s.tree.Image()
	require.Equal(t, "first", image.FirstSession)
	again := New(top, &s.opt)
	require.NoError(t, again.Replay(snapshotOf(image)))
	require.Equal(t, "first", again.FirstSession())
	require.Equal(t, "later", again.root.Spec.SessionID)
	require.NoError(t, again.Replay(&Fact{Kind: Opened, Num: 9, FactMore: &FactMore{ID: "third"}}))
	require.Equal(t, "first", again.FirstSession())
	require.Equal(t, image.FirstSession, again.Image().FirstSession)
}
