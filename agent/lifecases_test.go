package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
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
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A lifeCase is a row of section 5.14 of the field's reference: what befalls a run, and what is
// expected of it.
type lifeCase struct {
	id, given, expect string
	differs           string // what of it is otherwise here, and why
	run               func(t *testing.T)
}

// lifeCases are the rows of what befalls a run, controlCases those of what is done to it.
var lifeCases = []lifeCase{
	{id: "5.1", given: "an error, then an answer", expect: "one good end", run: errorThenAnswer},
	{
		id: "5.2", given: "an error, then silence", expect: "one bad end",
		differs: "a run has failed when its Runner says so; there is no wait of 15 seconds, since " +
			"what is worth another try is tried before the Runner returns",
		run: errorThenSilence,
	},
	{
		id: "5.3", given: "a turn that is aborted", expect: "timed out",
		differs: "timed out is only a run whose time is over; one that a caller ends is cancelled",
		run:     abortedTurn,
	},
	{id: "5.4", given: "two ways to see an end", expect: "one end is told", run: endIsSeenTwice},
	{
		id: "5.5", given: "an ended parent, a running grandchild", expect: "the parent is active",
		differs: "a run does not end before what is below it: it waits, and is active for that",
		run:     parentOfARunningChild,
	},
	{id: "5.6", given: "ended, not told", expect: "pending, not active", run: endedAndNotTold},
	{
		id: "5.7", given: "a cycle of descendants", expect: "terminates",
		differs: "a parent is on record before its child; a journal that says otherwise is refused",
		run:     cycleOfDescendants,
	},
	{id: "5.8", given: "9 spawns, a lane of 8", expect: "8, then the 9th", run: nineInALane},
	{id: "5.9", given: "1 s of time, 5 s queued", expect: "no false timeout", run: queuedTimeout},
	{
		id: "5.10", given: "a restart", expect: "running goes on, untold is told, done stays",
		differs: "what a crash interrupts is told so and not run again, since its tools may have " +
			"effects; what waits goes on, with the time that is left",
		run: restartOfThree,
	},
	{id: "5.11", given: "a crash while telling", expect: "told, one key", run: crashWhileTelling},
	{
		id: "5.12", given: "the session is missing", expect: "failed, and told",
		differs: "a run is on record with its session, so that only its transcript can be missing: " +
			"it goes on from what there is, and its end is told",
		run: missingTranscript,
	},
	{id: "5.13", given: "a store that cannot be read", expect: "kept", run: unreadableStore},
	{
		id: "5.14", given: "a file of version 1", expect: "migrated",
		differs: "what version 1 of the library wrote is read as it is, and goes on",
		run:     directoryOfVersionOne,
	},
	{id: "5.15", given: "a torn file", expect: "the state before it", run: tornJournal},
	{
		id: "5.16", given: "the archive is due, the run is active", expect: "kept until it ended",
		run: archiveOfAnActiveRun,
	},
	{id: "5.17", given: "the archive is due", expect: "renamed, no hook", run: archiveIsDue},
	{
		id: "5.18", given: "cleanup delete, two tries fail", expect: "kept until it is told",
		run: deleteIsToldFirst,
	},
	{
		id: "5.19", given: "three tries fail", expect: "given up, on record",
		differs: "it is tried for half an hour and then blocked, and can be told later",
		run:     tellingIsGivenUp,
	},
}

// Every row of the reference is driven against the public API, in its order.
func TestLifeCases(t *testing.T) {
	cases := append(append([]lifeCase{}, lifeCases...), controlCases...)
	for i, c := range cases {
		require.Equal(t, fmt.Sprint("5.", i+1), c.id)
		require.NotNil(t, c.run, c.id)
		t.Run(c.id+" "+c.given, c.run)
	}
	require.Len(t, cases, 30)
}

// spawned is a bot whose main session has spawned "a", and which says what comes of it.
func spawned(steps ...agenttest.Step) script {
	return script{"main": {startStep("a"), say("On it."), echo()}, "a": steps}
}

func errorThenAnswer(t *testing.T) {
	s := spawned(agenttest.Fail(agent.Retryable(io.ErrUnexpectedEOF)), say("a is done"))
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		require.Equal(t, spawn.StatusOK, h.Child("a").Status)
		require.Equal(t, 2, h.Calls("a"))
		h.Replied("On it.", "a is done")
	})
}

func errorThenSilence(t *testing.T) {
	lost := agenttest.Fail(agent.Retryable(io.ErrUnexpectedEOF))
	for name, steps := range map[string][]agenttest.Step{
		"at once":        {agenttest.Fail(errors.New("boom")).After(time.Second)},
		"after its last": {lost.After(time.Second), lost, lost, lost, lost},
	} {
		agenttest.Run(t, agent.Config{}, spawned(steps...), func(h *harness) {
			h.Post("go")
			for range 2 {
				h.Pass(2 * time.Minute)
				require.Equal(t, spawn.StatusFailed, h.Child("a").Status, name)
				require.Equal(t, len(steps), h.Calls("a"), name)
				h.Replied("On it.", "a: failed")
			}
		})
	}
}

func abortedTurn(t *testing.T) {
	s := script{
		"main": {
			call("sessions_spawn", `{"task":"x","label":"slow","runTimeoutSeconds":60}`).
				And("sessions_spawn", `{"task":"x","label":"cut"}`), say("On it."), echo(),
		},
		"slow": {agenttest.Hang()}, "cut": {agenttest.Hang()},
	}
	agenttest.Run(t, agent.Config{}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Second)
		require.NoError(t, h.Session(h.Child("cut").Key).CancelTurn(h.Context()))
		h.Pass(time.Second)
		require.Equal(t, spawn.StatusCancelled, h.Child("cut").Status)
		h.Pass(2 * time.Minute)
		require.Equal(t, spawn.StatusTimedOut, h.Child("slow").Status)
		h.Replied("On it.", "cut: cancelled", "slow: timed_out")
	})
}

func endIsSeenTwice(t *testing.T) {
	log := &hookLog{}
	s := script{"main": {say("hello"), echo()}, "a": {say("a is done").After(time.Minute)}}
	agenttest.Run(t, agent.Config{Hooks: log.hooks(nil)}, s, func(h *harness) {
		h.Post("hi")
		child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "a", Announce: true})
		require.NoError(t, err)
		seen := make(chan error, 3)
		for range 2 {
			go func() { _, err := child.Wait(h.Context()); seen <- err }()
		}
		go func() {
			children := []*agent.Child[string]{child}
			_, err := agent.Join(h.Context(), h.Main(), children, agent.JoinOptions{})
			seen <- err
		}()
		h.Pass(time.Hour / 2)
		for range 3 {
			require.NoError(t, <-seen)
		}
		h.Replied("hello", "a is done")
		require.Len(t, log.ends(), 1)
	})
}

func parentOfARunningChild(t *testing.T) {
	s := spawned(startStep("b"), say("so far so good"), echo())
	s["b"] = []agenttest.Step{say("b is done").After(time.Hour)}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		h.Pass(time.Minute)
		list, err := h.Main().ListRuns(h.Context(), agent.TargetQuery{})
		require.NoError(t, err)
		require.Equal(t, 1, list.Active)
		require.Equal(t, agent.StatusWaiting, list.Runs[0].Status)
		require.Equal(t, 1, list.Runs[0].Children)
		h.Replied("On it.")
		h.Pass(time.Hour)
		require.Equal(t, spawn.StatusOK, h.Child("a").Status)
		h.Replied("On it.", "b is done")
	})
}

func endedAndNotTold(t *testing.T) {
	var open atomic.Bool
	cfg := configTimed()
	cfg.Rules.Subagents.MaxChildren = 1
	cfg.Deliver = func(context.Context, agent.Delivery) error {
		return map[bool]error{false: errors.New("no connection")}[open.Load()]
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		start := func(task string) string {
			args := `{"task":"` + task + `","cleanup":"delete"}`
			out, err := callTool(h, "sessions_spawn", task, args)
			require.NoError(t, err)
			return out["status"].(string)
		}
		require.Equal(t, "accepted", start("1s"))
		h.Pass(time.Minute)
		out, err := callTool(h, "subagents", "1", `{}`)
		require.NoError(t, err)
		require.EqualValues(t, 0, out["active"])
		require.EqualValues(t, 1, out["total"], "its end is not told yet")
		require.Equal(t, "accepted", start("2s"), "an ended one leaves its place")
		require.Equal(t, "forbidden", start("3s"))
		open.Store(true)
		h.Pass(10 * time.Minute)
		h.Delivered("after 1s", "after 2s")
		require.Empty(t, h.Runs())
	})
}

// rewritten returns a Store in memory with the journal of another one, each entry as f makes it.
func rewritten(t *testing.T, store *session.Store, f func(data string) string) *session.Store {
	t.Helper()
	var batches []session.Batch
	for entry, err := range store.Journal.Read(t.Context(), topKey, 0) {
		require.NoError(t, err)
		if n := len(batches); n == 0 || batches[n-1].ID != entry.Batch {
			batches = append(batches, session.Batch{ID: entry.Batch})
		}
		data, err := entry.Payload.AppendJSON(nil)
		require.NoError(t, err)
		last := &batches[len(batches)-1]
		last.Entries = append(last.Entries, session.Entry{Payload: session.Raw(f(string(data)))})
	}
	made, seq := session.NewMemory(), session.Seq(0)
	for _, b := range batches {
		next, err := made.Journal.Append(t.Context(), topKey, seq, b)
		require.NoError(t, err)
		seq = next
	}
	return made
}

func cycleOfDescendants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, store := configTimed(), session.NewMemory()
		cfg.Store = store
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		a, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "1h", Label: "a"})
		require.NoError(t, err)
		require.NoError(t, rt.Shutdown(t.Context()))
		for name, f := range map[string]func(data string) string{
			"as it is": func(data string) string { return data },
			"a cycle": func(data string) string {
				return strings.ReplaceAll(data, `"parent":"`+topKey.String()+`"`,
					`"parent":"`+a.Key().String()+`"`)
			},
		} {
			cfg.Store = rewritten(t, store, f)
			rt, err := agent.Open(t.Context(), cfg)
			require.NoError(t, err)
			_, read := rt.Session(topKey).Tree(t.Context())
			for _, err := range []error{read, rt.Session(topKey).Stop(t.Context())} {
				if name == "as it is" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "its requester is not in the tree")
			}
			require.NoError(t, rt.Shutdown(t.Context()))
		}
	})
}

func nineInALane(t *testing.T) {
	cfg := configTimed()
	cfg.Rules = policy.Rules{Subagents: policy.Subagents{MaxChildren: 20}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		tasks := []string{"1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m"}
		startAll(h, tasks...)
		h.Pass(59 * time.Second)
		for i, r := range h.Runs() {
			require.Equal(t, i < 8, r.Status == spawn.StatusRunning, r.Label)
			require.Equal(t, i == 8, r.Status == spawn.StatusQueued, r.Label)
		}
		h.Pass(time.Second)
		require.Equal(t, spawn.StatusOK, h.Child("1m").Status)
		require.Equal(t, spawn.StatusRunning, h.Child("9m").Status)
	})
}

func queuedTimeout(t *testing.T) {
	cfg := configTimed()
	cfg.Rules.Subagents.MaxConcurrent = 1
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, args := range []string{
			`{"task":"5s"}`, `{"task":"900ms","label":"short","runTimeoutSeconds":1}`,
			`{"task":"3s","label":"long","runTimeoutSeconds":1}`,
		} {
			_, err := callTool(h, "sessions_spawn", args, args)
			require.NoError(t, err)
		}
		h.Pass(4 * time.Second)
		require.Equal(t, spawn.StatusQueued, h.Child("short").Status)
		require.Zero(t, h.Child("short").Deadline, "its time has not begun")
		h.Pass(time.Minute)
		require.Equal(t, spawn.StatusOK, h.Child("short").Status)
		long := h.Child("long")
		require.Equal(t, spawn.StatusTimedOut, long.Status)
		require.Equal(t, time.Second, long.Deadline.Sub(long.Started))
		require.Equal(t, 5900*time.Millisecond, long.Started.Sub(long.Created))
	})
}

func restartOfThree(t *testing.T) {
	const wait = `{"task":"x","label":"waits","runTimeoutSeconds":600}`
	s := script{
		"main": {
			andStart(andStart(startStep("works"), "untold"), "done").And("sessions_spawn", wait),
			say("On it."), echo().After(10 * time.Second),
		},
		"works":  {say("never said").After(3 * time.Hour)},
		"done":   {say("done is done").After(time.Minute)},
		"untold": {say("untold is done").After(5*time.Minute - time.Second)},
		"waits":  {startStep("below"), yieldStep(), agenttest.Hang()},
		"below":  {agenttest.Hang()},
	}
	agenttest.Run(t, agent.Config{Rules: rulesForDepth(2)}, s, func(h *harness) {
		h.Post("go")
		h.Pass(5 * time.Minute)
		before := h.Child("waits").Deadline
		h.Crash()
		h.Pass(time.Minute)
		require.Equal(t, map[string]spawn.Status{
			"works": spawn.StatusInterrupted, "untold": spawn.StatusOK, "done": spawn.StatusOK,
			"waits": spawn.StatusRunning, "below": spawn.StatusInterrupted,
		}, statuses(h.Runs()))
		require.Equal(t, before, h.Child("waits").Deadline)
		h.Pass(4 * time.Minute)
		require.Equal(t, spawn.StatusTimedOut, h.Child("waits").Status)
		require.Equal(t, before, h.Child("waits").Ended, "ten minutes since its first turn")
		require.Equal(t, 1, h.Calls("works"))
		h.Pass(time.Minute)
		h.Replied("On it.", "done is done", "untold is done\nworks: interrupted",
			"waits: timed_out")
	})
}

func crashWhileTelling(t *testing.T) {
	var told []agent.Delivery
	var crashed atomic.Bool
	cfg := configTimed()
	cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
		told = append(told, d)
		if !crashed.Load() {
			<-ctx.Done() // until the process is killed
			return ctx.Err()
		}
		return nil
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"1s"}`)
		require.NoError(t, err)
		h.Pass(2 * time.Second)
		require.Len(t, told, 1)
		crashed.Store(true)
		h.Crash()
		h.Pass(10 * time.Minute)
		h.Delivered("after 1s")
		require.Len(t, told, 2)
		require.Equal(t, told[0].Key, told[1].Key)
		require.True(t, told[1].MayRepeat)
		require.False(t, told[0].MayRepeat)
	})
}

// lives runs a process on a Store until it is told to stop in good order.
func lives(t *testing.T, cfg agent.Config, f func(rt *agent.Runtime)) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
	f(rt)
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-ran)
}

// oneByOne spawns "a" and behind it, in a lane of one, "b", which take so long, in a process that
// is gone two seconds later.
func oneByOne(t *testing.T, cfg agent.Config, takes ...string) (a *agent.Child[string]) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- rt.Run(ctx) }()
	for i, label := range []string{"a", "b"} {
		task := agent.Task{Text: takes[i], Label: label, Announce: true}
		child, err := rt.Session(topKey).Spawn(ctx, task)
		require.NoError(t, err)
		if i == 0 {
			a = child
		}
		synctest.Wait()
	}
	time.Sleep(2 * time.Second)
	stop()
	require.NoError(t, <-ran)
	return a
}

// toldOf has a Config tell of ends as label: status.
func toldOf(cfg *agent.Config) *[]string {
	told := []string{}
	cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
		run := d.Completion.Run
		told = append(told, run.Label+": "+run.Status.String())
		return nil
	}
	return &told
}

func missingTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dir := configTimed(), t.TempDir()
		cfg.Rules.Subagents.MaxConcurrent = 1
		told := toldOf(&cfg)
		open := func() *session.Store {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			return store
		}
		cfg.Store = open()
		a := oneByOne(t, cfg, "1s", "1h")
		require.NoError(t, cfg.Store.Close())
		files, err := filepath.Glob(filepath.Join(dir, "sessions", "main", "*.jsonl"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			require.NoError(t, os.Remove(f))
		}
		cfg.Store = open()
		lives(t, cfg, func(rt *agent.Runtime) {
			more := agent.Incoming{Text: "[Subagent Task]: 2s"}
			receipt, err := rt.Session(a.Key()).Post(t.Context(), more)
			require.NoError(t, err)
			child, err := agent.ChildOf[string](t.Context(), rt.Session(topKey), receipt)
			require.NoError(t, err)
			said, err := child.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, "after 2s", said, "what was said before is lost, no more")
		})
		require.NoError(t, cfg.Store.Close())
		require.Equal(t, []string{"a: ok", "b: interrupted"}, *told)
	})
}

// blindJournal cannot be read while it is blind.
type blindJournal struct {
	session.Journal
	blind atomic.Bool
}

func (b *blindJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if b.blind.Load() {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, errDisk) }
	}
	return b.Journal.Read(ctx, root, after)
}

func unreadableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, store := configTimed(), session.NewMemory()
		cfg.Rules.Subagents.MaxConcurrent = 1
		told := toldOf(&cfg)
		cfg.Store = store
		oneByOne(t, cfg, "1h", "1h")
		gone := &blindJournal{Journal: store.Journal}
		gone.blind.Store(true)
		cfg.Store = &session.Store{Journal: gone, Transcripts: store.Transcripts}
		lives(t, cfg, func(rt *agent.Runtime) {
			time.Sleep(time.Hour)
			_, err := rt.Session(topKey).Tree(t.Context())
			require.ErrorIs(t, err, errDisk)
			synctest.Wait()
			require.Empty(t, *told)
			gone.blind.Store(false)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.Equal(t, []string{"a: interrupted", "b: ok"}, *told)
		})
	})
}

func directoryOfVersionOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStored(t, filepath.Join("testdata", "state-v1", "managed"))
		time.Sleep(24 * time.Hour)
		before := s.runs()
		require.NotEmpty(t, before)
		s.live(policy.Off, func(rt *agent.Runtime) {
			s.idle(rt)
			for _, r := range before {
				now, err := rt.Session(r.Key).FindRun(t.Context(), r.ID)
				require.NoError(t, err)
				require.True(t, now.Status.Terminal(), "%s is %s", r.Label, now.Status)
				require.True(t, !r.Status.Terminal() || now.Status == r.Status)
			}
		})
	})
}

func tornJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dir, torn := configTimed(), t.TempDir(), t.TempDir()
		store, err := dirstore.Open(dir)
		require.NoError(t, err)
		cfg.Store = store
		lives(t, cfg, func(rt *agent.Runtime) {
			for _, label := range []string{"a", "b"} {
				_, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "1h", Label: label})
				require.NoError(t, err)
				synctest.Wait()
			}
			// what a process leaves that is killed in the middle of a write
			require.NoError(t, os.CopyFS(torn, os.DirFS(dir)))
		})
		require.NoError(t, store.Close())
		path := filepath.Join("journal", "00000001.wal")
		whole, err := os.ReadFile(filepath.Join(torn, path))
		require.NoError(t, err)
		for name, left := range map[string][]byte{
			"a part of a write": append(slices.Clip(whole), whole[:40]...),
			"not all of it":     whole[:len(whole)-10],
		} {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(torn)))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), left, 0o600))
			store, err := dirstore.Open(dir)
			require.NoError(t, err, name)
			cfg.Store = store
			lives(t, cfg, func(rt *agent.Runtime) {
				runs, err := rt.Session(topKey).Tree(t.Context())
				require.NoError(t, err, name)
				require.NotEmpty(t, runs, name)
				require.Equal(t, spawn.StatusInterrupted, runs[0].Status, name)
				_, err = rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "1s"})
				require.NoError(t, err, name)
			})
			require.NoError(t, store.Close())
		}
	})
}

func archiveOfAnActiveRun(t *testing.T) {
	cfg := configTimed()
	cfg.Rules.Subagents.ArchiveAfter = time.Minute
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"3h","label":"3h"}`)
		require.NoError(t, err)
		h.Pass(2*time.Hour + 59*time.Minute)
		require.Equal(t, spawn.StatusRunning, h.Child("3h").Status)
		h.Pass(90 * time.Second)
		h.Delivered("after 3h")
		require.Len(t, h.Runs(), 1)
		h.Pass(time.Minute)
		require.Empty(t, h.Runs())
	})
}

func archiveIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, log := t.TempDir(), &hookLog{}
		store, err := dirstore.Open(dir)
		require.NoError(t, err)
		cfg := configTimed()
		cfg.Store, cfg.Hooks = store, log.hooks(nil)
		lives(t, cfg, func(rt *agent.Runtime) {
			child, err := rt.Session(topKey).Spawn(t.Context(), agent.Task{Text: "1s"})
			require.NoError(t, err)
			time.Sleep(time.Hour - time.Minute)
			require.Len(t, log.ends(), 1)
			run, err := child.Info(t.Context())
			require.NoError(t, err)
			live := filepath.Join(dir, "sessions", "main", run.SessionID+".jsonl")
			require.FileExists(t, live)
			time.Sleep(2 * time.Minute)
			_, err = child.Info(t.Context())
			require.ErrorIs(t, err, agent.ErrNotFound)
			require.NoFileExists(t, live)
			kept, err := filepath.Glob(live + ".deleted.*Z")
			require.NoError(t, err)
			require.Len(t, kept, 1)
			require.NotContains(t, filepath.Base(kept[0]), ":")
			require.Len(t, log.ends(), 1, "an archive is not an end")
		})
		require.NoError(t, store.Close())
	})
}

func deleteIsToldFirst(t *testing.T) {
	r := &receiver{answers: []func(context.Context) error{
		refuseDelivery, refuseDelivery, acceptDelivery,
	}}
	cfg := configTimed()
	cfg.Deliver = r.deliver
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"1s","cleanup":"delete"}`)
		require.NoError(t, err)
		for len(r.tried()) < 3 {
			require.Len(t, h.Runs(), 1)
			h.Pass(time.Second)
		}
		h.Delivered("after 1s")
		h.Pass(time.Second)
		require.Empty(t, h.Runs())
	})
}

func tellingIsGivenUp(t *testing.T) {
	r := &receiver{answers: []func(context.Context) error{refuseDelivery}}
	cfg := configTimed()
	cfg.Deliver = r.deliver
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", `{"task":"1s"}`)
		require.NoError(t, err)
		h.Pass(time.Hour)
		n := len(r.tried())
		require.Greater(t, n, 3)
		require.Less(t, n, 30)
		h.Pass(24 * time.Hour)
		require.Len(t, r.tried(), n, "it is given up")
		blocked, err := h.Runtime().Blocked(h.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1)
		require.Equal(t, "no connection", blocked[0].Error)
		require.Len(t, h.Runs(), 1, "and stays on record")
		require.NoError(t, h.Runtime().Dismiss(h.Context(), blocked[0].Key))
	})
}
