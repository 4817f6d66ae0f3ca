package spawn_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Progress that says nothing, or what is not so, is refused, and the 101st milestone of a run.
func TestReportRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last *spawn.TurnInput
		report := func(p spawn.Progress) error { return last.Report(t.Context(), p) }
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				last = tn
				for field, p := range map[string]spawn.Progress{
					"Progress.Percent": {Text: "x", Percent: -1},
					"Progress.Text":    {},
				} {
					var bad *spawn.InputError
					require.ErrorAs(t, report(p), &bad)
					require.Equal(t, field, bad.Field)
				}
				for _, p := range []spawn.Progress{
					{Text: "x", Percent: 101, Milestone: true},
					{Milestone: true, Percent: 3},
					{Text: " \u200b\n", Milestone: true},
					{Text: "\x1b"},
				} {
					var bad *spawn.InputError
					require.ErrorAs(t, report(p), &bad)
				}
				require.NoError(t, report(spawn.Progress{Percent: 100}))
				for range spawn.MaxMilestones {
					require.NoError(t, report(spawn.Progress{Text: "x", Milestone: true}))
				}
				var over *spawn.LimitError
				require.ErrorAs(t, report(spawn.Progress{Text: "x", Milestone: true}), &over)
				require.Equal(t, spawn.MaxMilestones, over.Limit)
				require.NoError(t, report(spawn.Progress{Text: "x"}), "progress goes on")
				return spawn.TurnResult{}, nil
			},
		)})
		for range 2 { // a top-level session has as many in each turn
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})),
			)
			require.NoError(t, s.Idle(t.Context(), topKey))
		}
		require.Equal(t, 2, last.N)
		for _, milestone := range []bool{false, true} {
			err := report(spawn.Progress{Text: "late", Milestone: milestone})
			require.ErrorIs(t, err, spawn.ErrStale)
		}
	})
}

// Progress is shown at most four times in a second, each time the newest, and the last before the
// turn ends. A milestone is shown whenever it is reached.
func TestProgressIsShownAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				for i := range 1010 {
					p := spawn.Progress{Text: fmt.Sprintf("step\n%d", i), Percent: i * 100 / 1010}
					require.NoError(t, tn.Report(ctx, p))
					if i == 600 {
						p.Milestone = true
						require.NoError(t, tn.Report(ctx, p))
					}
					time.Sleep(1007 * time.Microsecond)
				}
				long := spawn.Progress{Text: strings.Repeat("é", 5000), Percent: 100}
				return spawn.TurnResult{}, tn.Report(ctx, long)
			},
		)})
		var shown []spawn.TreeEvent
		events := s.Events(t.Context(), spawn.EventQuery{Root: topKey})
		go func() {
			for e, err := range events {
				assert.NoError(t, err)
				shown = append(shown, e)
			}
		}()
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		require.NoError(t, s.Idle(t.Context(), topKey))
		synctest.Wait()
		var got []string
		for _, e := range shown {
			switch e.Kind {
			case spawn.EventProgress, spawn.EventMilestone:
				require.Equal(t, topKey, e.Session)
				require.Equal(t, 1, e.Turn)
				got = append(got, fmt.Sprint(e.Kind, " ", e.Percent, " ", e.Text))
			case spawn.EventTurnEnded:
				got = append(got, e.Kind.String())
			default:
			}
		}
		require.Equal(t, []string{
			"progress 0 step 0", "progress 24 step 248", "progress 49 step 496",
			"milestone 59 step 600", "progress 73 step 744", "progress 98 step 993",
			"progress 100 " + strings.Repeat("é", 1000), "turn_ended",
		}, got)
	})
}

// A requester that asked for milestones reads the newest of each child once: with the turn that
// something else starts, or with Take.
func TestMilestonesStartNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read []string
		turns := 0
		note := func(how string, inputs []spawn.Input) {
			for _, in := range inputs {
				read = append(read, fmt.Sprintf("%s %v %s %s %d", how, in.Class, in.Label, in.Text, in.Percent))
			}
		}
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Run.ID == "" {
					turns++
					note("turn", tn.Inputs)
					if tn.N == 1 {
						for _, ask := range []bool{true, false} {
							_, err := tn.Spawn(ctx, spawn.Request{
								Task: "work", Label: fmt.Sprint(ask), Announce: ask, Milestones: ask,
							})
							require.NoError(t, err)
						}
						time.Sleep(90 * time.Second)
						in, err := tn.Take(ctx)
						require.NoError(t, err)
						note("take", in)
					}
					return spawn.TurnResult{}, nil
				}
				for i := range 5 {
					time.Sleep(40 * time.Second)
					p := spawn.Progress{Text: fmt.Sprint("part ", i), Percent: 20 * i, Milestone: true}
					if err := tn.Report(ctx, p); err != nil {
						return spawn.TurnResult{}, err
					}
				}
				return sayText("done")
			},
		)})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		time.Sleep(150 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, turns, "a milestone starts no turn")
		require.NoError(t, s.Idle(t.Context(), topKey))
		require.Equal(t, []string{
			"turn user  go 0", "take milestone true part 1 20",
			"turn milestone true part 4 80", "turn completion   0",
		}, read)
	})
}
