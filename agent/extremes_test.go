package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// extremes are durations that a caller may give. forEver are those that are longer than any test.
var (
	forEver  = []time.Duration{236 * 365 * 24 * time.Hour, math.MaxInt64 - 1, math.MaxInt64}
	extremes = append([]time.Duration{0, 1, policy.Off, math.MinInt64}, forEver...)
)

// A durationCase checks what one duration comes to. It gets an extreme, and whether that is longer
// than any test.
type durationCase func(t *testing.T, d time.Duration, forEver bool)

// durationCases has every duration that a caller may give, by its field.
var durationCases = map[string]durationCase{
	"policy.Subagents.Timeout": func(t *testing.T, d time.Duration, _ bool) {
		checkTimeout(t, policy.Subagents{Timeout: d}, agent.Task{}, d)
	},
	"policy.Subagents.MaxTimeout": checkMaxTimeout,
	"policy.Request.Timeout": func(t *testing.T, d time.Duration, _ bool) {
		checkTimeout(t, policy.Subagents{}, agent.Task{Timeout: d}, d)
	},
	"agent.Task.Timeout": func(t *testing.T, d time.Duration, _ bool) {
		checkTimeout(t, policy.Subagents{Timeout: time.Minute}, agent.Task{Timeout: d}, d)
	},
	"policy.Subagents.ArchiveAfter": checkArchive,
	"policy.Rules.KeepArchives":     checkKeepArchives,
	"agent.Config.Grace":            checkGrace,
	"spawn.Config.Grace":            checkGrace,
	"agent.Config.Drain":            checkDrain,
	"agent.Config.DeliverTimeout":   checkDeliverTimeout,
	"spawn.Config.DeliverTimeout":   checkDeliverTimeout,
	"agent.AnnounceTurn.Timeout":    checkAnnounceTimeout,
	"spawn.Config.AnnounceTimeout":  checkAnnounceTimeout,
	"spawn.JoinOptions.Within":      checkWithin,
	"agent.Tool.Timeout":            checkToolTimeout,
	"binding.Request.Idle": func(t *testing.T, d time.Duration, forEver bool) {
		checkBinding(t, binding.Request{Idle: d}, d, forEver)
	},
	"binding.Request.MaxAge": func(t *testing.T, d time.Duration, forEver bool) {
		checkBinding(t, binding.Request{MaxAge: d}, d, forEver)
	},
	"binding.Limit.Idle": checkLimit(func(d *time.Duration) binding.Limit {
		return binding.Limit{Idle: d}
	}),
	"binding.Limit.MaxAge": checkLimit(func(d *time.Duration) binding.Limit {
		return binding.Limit{MaxAge: d}
	}),
	"binding.Policy.Idle":   resultOnly,
	"binding.Policy.MaxAge": resultOnly,
}

// resultOnly is for a duration that the library returns.
func resultOnly(*testing.T, time.Duration, bool) {}

// R11: no duration that a caller gives, however long, comes to its end at once, and none that
// cannot be is taken. The table has every duration of every configuration and request.
func TestDurationsAtTheirExtremes(t *testing.T) {
	var all []string
	for _, root := range []any{
		agent.Config{},
		agent.Task{},
		spawn.Config{},
		spawn.Request{},
		spawn.JoinOptions{},
		policy.Rules{},
		policy.Request{},
		binding.Request{},
		binding.Limit{},
		binding.Settings{},
		binding.Policy{},
	} {
		all = append(all, durationsOf(reflect.TypeOf(root))...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	var cases []string
	for name := range durationCases {
		cases = append(cases, name)
	}
	slices.Sort(cases)
	require.Equal(t, all, cases, "the table has every duration")
	for name, check := range durationCases {
		for _, d := range extremes {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				check(t, d, slices.Contains(forEver, d))
			})
		}
	}
}

// durationsOf returns the durations in a struct of this module and in those inside it, each by the
// package, the type and the field.
func durationsOf(typ reflect.Type) (names []string) {
	seen := make(map[reflect.Type]bool)
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
			return
		default:
		}
		if typ.Kind() != reflect.Struct || typ.Name() == "Time" || seen[typ] {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if of == reflect.TypeFor[time.Duration]() && f.IsExported() {
				names = append(names, typ.String()+"."+f.Name)
			}
			walk(f.Type)
		}
	}
	walk(typ)
	return names
}

// C5: every duration of a Config that is less than a millisecond is told: its unit was forgotten.
func TestDurationsWithoutAUnitAreTold(t *testing.T) {
	fields := 0
	var walk func(path string, index []int, typ reflect.Type)
	walk = func(path string, index []int, typ reflect.Type) {
		for f := range typ.Fields() {
			at, field := append(slices.Clone(index), f.Index...), path+"."+f.Name
			switch {
			case f.IsExported() && f.Type == reflect.TypeFor[time.Duration]():
				fields++
				for d, told := range map[time.Duration]bool{
					1: true, 300: true, time.Millisecond - 1: true,
					time.Millisecond: false, time.Hour: false, 0: false,
				} {
					cfg := agent.Config{Runner: idleRunner{}}
					var log bytes.Buffer
					cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
					reflect.ValueOf(&cfg).Elem().FieldByIndex(at).SetInt(int64(d))
					_, err := agent.Open(t.Context(), cfg)
					require.NoError(t, err)
					warned := strings.Contains(log.String(), "field="+field+" ") &&
						strings.Contains(log.String(), d.String()+": is a unit missing")
					require.Equal(t, told, warned, "%s %v %s", field, d, log.String())
				}
			case f.IsExported() && f.Type.Kind() == reflect.Struct:
				walk(field, at, f.Type)
			}
		}
	}
	walk("Config", nil, reflect.TypeFor[agent.Config]())
	require.Equal(t, 8, fields, "those in a list or map need a case of their own")
	for d, told := range map[time.Duration]bool{300: true, time.Millisecond: false, 0: false} {
		var log bytes.Buffer
		_, err := agent.Open(t.Context(), agent.Config{
			Runner: idleRunner{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Tools: []agent.Tool{{Name: "x", Call: toolSaying("x"), Timeout: d}},
		})
		require.NoError(t, err)
		require.Equal(t, told, strings.Contains(log.String(), "field=Config.Tools[0].Timeout "))
	}
}

// checkToolTimeout checks a tool that takes an hour.
func checkToolTimeout(t *testing.T, d time.Duration, forEver bool) {
	cfg := agent.Config{Tools: []agent.Tool{{
		Name: "slow", Timeout: d,
		Call: textCall(func(ctx context.Context, _ agent.ToolCall) (string, error) {
			return "done", pause(ctx, time.Hour)
		}),
	}}}
	if d < 0 {
		cfg.Runner = idleRunner{}
		_, err := agent.Open(t.Context(), cfg)
		require.ErrorContains(t, err, "Tools[0].Timeout")
		return
	}
	agenttest.Run(t, cfg, script{"main": {call("slow", `{}`), echo()}}, func(h *harness) {
		h.Post("go")
		time.Sleep(2 * time.Hour)
		want := "done"
		if d != 0 && !forEver {
			want = `error: agent: the tool "slow" has not answered within 1ns, which is its timeout`
		}
		h.Replied(want)
	})
}

// checkTimeout checks a timeout of a run that takes an hour.
func checkTimeout(t *testing.T, s policy.Subagents, task agent.Task, d time.Duration) {
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "done"}, pause(ctx, time.Hour)
	})
	s.ArchiveAfter = policy.Off
	cfg.Rules.Subagents = s
	if d == math.MinInt64 && s.Timeout == d {
		require.Error(t, cfg.Rules.Validate())
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		task.Text = "x"
		child, err := agent.Spawn[string](h.Context(), h.Main(), task)
		if d == math.MinInt64 {
			require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTimeout})
			return
		}
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		info, err := child.Info(h.Context())
		require.NoError(t, err)
		want := agent.StatusOK
		if d == 1 || d == 0 && s.Timeout > 0 {
			want = agent.StatusTimedOut
		}
		require.Equal(t, want, info.Status)
		if d > 1 {
			require.True(t, info.Deadline.After(time.Now()), "%v", info.Deadline)
		}
	})
}

// checkMaxTimeout checks the longest timeout of a run that takes an hour and asks for no timeout.
func checkMaxTimeout(t *testing.T, d time.Duration, _ bool) {
	s := policy.Subagents{MaxTimeout: d}
	if d < 0 {
		require.Error(t, (&policy.Rules{Subagents: s}).Validate())
		return
	}
	checkTimeout(t, s, agent.Task{Timeout: policy.Off}, d)
}

func checkKeepArchives(t *testing.T, d time.Duration, forEver bool) {
	cfg := configAnswering(asText)
	cfg.Rules.KeepArchives = d
	if d < 0 {
		require.ErrorContains(t, cfg.Rules.Validate(), "session.keepArchivesMinutes")
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
		if d == 0 || forEver {
			require.NoError(t, err)
			require.True(t, page.Archived)
			return
		}
		require.ErrorIs(t, err, agent.ErrNotFound)
	})
}

func checkArchive(t *testing.T, d time.Duration, forEver bool) {
	cfg := configAnswering(asText)
	cfg.Rules.Subagents.ArchiveAfter = d
	if d == math.MinInt64 {
		require.Error(t, cfg.Rules.Validate())
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		kept := forEver || d == policy.Off
		require.Equal(t, kept, len(h.Runs()) == 1)
		h.Crash()
		time.Sleep(24 * time.Hour)
		require.Equal(t, kept, len(h.Runs()) == 1)
	})
}

// checkGrace checks a grace period with a Runner that takes a minute to return.
func checkGrace(t *testing.T, d time.Duration, forEver bool) {
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		<-ctx.Done()
		time.Sleep(time.Minute)
		return agent.Result{Text: "late"}, context.Cause(ctx)
	})
	cfg.Grace = d
	if d < 0 {
		_, err := agent.Open(t.Context(), cfg)
		require.Error(t, err)
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		err = child.Stop(h.Context())
		var still *agent.StillRunningError
		if forEver {
			require.NoError(t, err, "it has time to return")
		} else {
			require.ErrorAs(t, err, &still)
		}
		time.Sleep(time.Hour)
	})
}

// checkAnnounceTimeout checks an announce step that takes three minutes.
func checkAnnounceTimeout(t *testing.T, d time.Duration, forEver bool) {
	cfg := announcing()
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if !tn.Announces {
			return textResult("the answer")
		}
		return agent.Result{Text: "the words"}, pause(ctx, 3*time.Minute)
	})
	cfg.AnnounceTurn.Timeout = d
	if d < 0 {
		_, err := agent.Open(t.Context(), cfg)
		require.Error(t, err)
		return
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		task := agent.Task{Text: "x", Announce: true}
		child, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		got, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "the answer", got)
		require.Equal(t, forEver, h.Runs()[0].Announcement == "the words")
	})
}

// checkDrain checks a turn that takes a minute beyond the end of the context of Run.
func checkDrain(t *testing.T, d time.Duration, forEver bool) {
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		return agent.Result{}, pause(ctx, time.Minute)
	})
	cfg.Drain = d
	if d < 0 {
		_, err := agent.Open(t.Context(), cfg)
		require.Error(t, err)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rt.Run(ctx) }()
		require.NoError(t, errorOf(rt.Session(topKey).Post(ctx, agent.Incoming{Text: "go"})))
		synctest.Wait()
		began := time.Now()
		cancel()
		require.NoError(t, <-done)
		if forEver {
			require.Equal(t, time.Minute, time.Since(began))
		} else {
			require.Less(t, time.Since(began), time.Second)
		}
	})
}

// checkDeliverTimeout checks a receiver that takes a minute, and no time from the third call on.
func checkDeliverTimeout(t *testing.T, d time.Duration, _ bool) {
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("done")
	})
	cfg.DeliverTimeout = d
	if d < 0 {
		_, err := agent.Open(t.Context(), cfg)
		require.Error(t, err)
		return
	}
	var calls atomic.Int64
	cfg.Deliver = func(ctx context.Context, _ agent.Delivery) error {
		if calls.Add(1) > 2 {
			return nil
		}
		return pause(ctx, time.Minute)
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Announce: true})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		want := int64(1)
		if d == 1 {
			want = 3
		}
		require.Equal(t, want, calls.Load())
	})
}

// checkWithin checks a wait for a child that takes an hour, from outside and in a turn that yields.
func checkWithin(t *testing.T, d time.Duration, _ bool) {
	want := time.Hour
	if d == 1 {
		want = 1
	} else if d < 0 { // the deadline has passed
		want = 0
	}
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return agent.Result{Text: "done"}, pause(ctx, time.Hour)
		}
		if tn.N == 1 {
			if _, err := tn.Spawn(ctx, agent.Task{Text: "y"}); err != nil {
				return agent.Result{}, err
			}
			tn.Yield(agent.JoinOptions{Within: d})
			return agent.Result{}, nil
		}
		return textResult("over")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x"})
		require.NoError(t, err)
		began := time.Now()
		_, _ = h.Main().Wait(h.Context(), []*agent.Child[string]{child},
			agent.JoinOptions{Within: d})
		require.Equal(t, want, time.Since(began))
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("go")
		time.Sleep(30 * time.Minute)
		require.Equal(t, d == 1 || d < 0, len(h.Replies()) == 1)
		time.Sleep(time.Hour)
		h.Replied("over")
	})
}

// checkBinding checks the limits of a binding after ten years.
func checkBinding(t *testing.T, req binding.Request, d time.Duration, _ bool) {
	table, err := binding.Open(t.Context(), session.NewMemory().Journal)
	require.NoError(t, err)
	req.Conversation = session.Route{Channel: "chat", To: "1"}
	req.Target, req.By = topKey, binding.SystemOwner
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err = table.Bind(t.Context(), req, now); d < 0 {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	checkBound(t, table, req.Conversation, now, d)
}

func checkBound(
	t *testing.T, table *binding.Table, c session.Route, now time.Time, d time.Duration,
) {
	t.Helper()
	_, bound := table.Find(c, now.AddDate(10, 0, 0))
	require.Equal(t, d != 1, bound)
	if next := table.Next(); d > 1 {
		require.True(t, next.After(now.AddDate(100, 0, 0)), "%v", next)
	}
}

func checkLimit(limit func(*time.Duration) binding.Limit) durationCase {
	return func(t *testing.T, d time.Duration, _ bool) {
		table, err := binding.Open(t.Context(), session.NewMemory().Journal)
		require.NoError(t, err)
		c, now := session.Route{Channel: "chat", To: "1"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err = table.Bind(t.Context(), binding.Request{
			Conversation: c, Target: topKey, By: binding.SystemOwner,
		}, now)
		require.NoError(t, err)
		if _, err = table.SetLimit(t.Context(), c, binding.SystemOwner, limit(&d), now); d < 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		checkBound(t, table, c, now, d)
	}
}
