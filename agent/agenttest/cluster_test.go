package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// takenOver is how long after a death every tree of the process is that of another one: a lease,
// and the spread over which trees are taken.
const takenOver = session.DefaultLease + 3*time.Second

// A bot in two processes answers whichever of them it is told by, each message once and in order,
// also when one of them dies.
func TestTwoRuntimesOfOneStore(t *testing.T) {
	Cluster{}.Run(t, agent.Config{}, Script{Main: {Echo()}}, func(h *Harness) {
		both := h.Runtimes()
		require.Len(h.T(), both, 2)
		for i, text := range []string{"one", "two", "three"} {
			_, err := both[i%2].Session(h.mainKey()).Post(h.Context(), agent.Incoming{Text: text})
			require.NoError(h.T(), err)
			h.Pass(time.Second)
		}
		h.Replied("one", "two", "three")
		h.Crash()
		require.Same(h.T(), both[1], h.Runtime())
		require.Len(h.T(), h.Runtimes(), 2, "another one is started")
		h.Pass(takenOver)
		h.Post("four")
		h.Pass(time.Second)
		h.Replied("one", "two", "three", "four")
	})
}

// A message that was posted is answered once, in order, whichever process dies when.
func TestEveryMessageIsAnsweredOnce(t *testing.T) {
	cfg := agent.Config{}
	script := Script{Main: {Echo()}}
	Cluster{}.EveryCrash(t, cfg, script, func(h *Harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		h.Replied("hello")
		h.Post("again")
		h.Pass(time.Minute)
		h.Replied("hello", "again")
	})
}

// At whichever write of whichever process that dies: another one goes on, every result comes once,
// and nothing that was said is lost.
func TestAnotherProcessTakesOverAtEveryWrite(t *testing.T) {
	spawning := func(label string) Step {
		return Call("sessions_spawn", fmt.Sprintf(`{"task":"count","label":%q}`, label))
	}
	cfg := agent.Config{Rules: policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 2}}}
	Cluster{}.EveryCrash(t, cfg, Script{
		Main:    {spawning("outer"), Say("I am on it."), Echo()},
		"outer": {spawning("inner"), Call("sessions_yield", `{}`), Echo()},
		"inner": {Say("There are 12.").After(time.Minute)},
	}, func(h *Harness) {
		h.Post("How many are there?")
		h.Pass(30 * time.Second)
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error { // by a process that has it not
			list := h.Runtimes()
			_, err := list[len(list)-1].Session(h.mainKey()).Post(h.Context(),
				agent.Incoming{ID: "again", Text: "Well?"})
			return err
		}))
		h.Pass(10 * time.Minute)
		require.NotEmpty(h.T(), h.Replies())
		runs := h.Runs()
		require.NotEmpty(h.T(), runs)
		for _, run := range runs {
			want := []spawn.Status{spawn.StatusOK, spawn.StatusInterrupted}
			if run.Label == "inner" { // it ends with the one above it
				want = append(want, spawn.StatusCancelled)
			}
			require.Contains(h.T(), want, run.Status, "%s: %s", run.Label, run.Error)
		}
	})
}

// A diligent is a bot whose sub-agent goes on whatever becomes of its turn.
type diligent struct {
	mu   sync.Mutex
	acts []time.Time // of its tool, which takes effect at once
	errs []error     // of the calls that came to nothing
	left time.Time   // when the Runner has returned
}

// config is that of the bot. The sub-agent calls a tool each second for a minute and a half, and
// meanwhile says something and keeps two files.
func (d *diligent) config() agent.Config {
	act := func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.acts = append(d.acts, time.Now())
		return agent.ToolResult{Text: "done"}, nil
	}
	show := func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
		<-time.After(40 * time.Second) // it begins in time, and returns when the lease is over
		return agent.ToolResult{Parts: []agent.Part{{
			Kind: session.PartFile, MediaType: "text/plain", Data: []byte("a long report"),
		}}}, nil
	}
	run := func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			return agent.Result{Text: "ok"}, nil
		}
		ctx := context.Background() // it does not obey
		var all sync.WaitGroup
		all.Go(func() {
			_, err := tn.Call(ctx, agent.ToolCall{Name: "show"})
			d.note(err)
		})
		all.Go(func() {
			<-time.After(35 * time.Second)
			d.note(tn.Record(ctx, agent.Message{Role: session.MessageAssistant, Text: "late"}))
		})
		all.Go(func() {
			<-time.After(36 * time.Second)
			_, err := tn.PutFile(ctx, strings.NewReader("another report"),
				agent.Part{Kind: session.PartFile})
			d.note(err)
		})
		for range 90 {
			_, err := tn.Call(ctx, agent.ToolCall{Name: "act"})
			d.note(err)
			<-time.After(time.Second)
		}
		all.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.left = time.Now()
		return agent.Result{Text: "finished"}, nil
	}
	return agent.Config{
		Grace:  5 * time.Minute,
		Runner: agent.RunnerFunc(run),
		Tools:  []agent.Tool{{Name: "act", Call: act}, {Name: "show", Call: show}},
	}
}

func (d *diligent) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.errs = append(d.errs, err)
	}
}

// lastAct returns when the tool has acted last.
func (d *diligent) lastAct() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.acts[len(d.acts)-1]
}

// What a process still does for a tree that may be that of another one has no effect: no tool is
// called, and no line and no file is written, from before the end of its lease on. If it is heard
// again before another one has taken the tree, all of it goes on.
func TestFormerOwnerDoesNothing(t *testing.T) {
	for _, test := range []struct {
		outage    time.Duration
		processes int
		taken     bool
	}{
		{19 * time.Second, 2, false},
		{60 * time.Second, 1, false},
		{60 * time.Second, 2, true},
		{10 * time.Minute, 2, true},
	} {
		t.Run(fmt.Sprint(test.outage, " of ", test.processes), func(t *testing.T) {
			d := new(diligent)
			Cluster{Processes: test.processes}.Run(t, d.config(), nil, func(h *Harness) {
				d.cutOff(h, test.outage, test.taken)
			})
		})
	}
}

// cutOff cuts the process that runs the sub-agent off for a time.
func (d *diligent) cutOff(h *Harness, outage time.Duration, taken bool) {
	h.Pass(time.Second)
	child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "go", Announce: true})
	require.NoError(h.T(), err)
	h.Pass(8 * time.Second)
	a, cut := h.Runtime(), time.Now()
	h.Cut(a)
	h.Pass(outage)
	if outage > session.DefaultLease {
		require.Less(h.T(), d.lastAct().Sub(cut), session.DefaultLease)
	}
	last := d.lastAct()
	h.Heal(a)
	h.Pass(20 * time.Minute)
	info, err := child.Info(h.Context())
	require.NoError(h.T(), err)
	var lines []string
	ref := session.Ref{Key: child.Key(), SessionID: info.SessionID}
	for line, err := range h.store.Transcripts.Read(h.Context(), ref, session.LineQuery{}) {
		require.NoError(h.T(), err)
		lines = append(lines, line.Message.Text)
	}
	files := 0
	for _, err := range h.store.Files.List(h.Context(), ref) {
		require.NoError(h.T(), err)
		files++
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	require.NotZero(h.T(), d.left, "the Runner does not hang")
	if !taken {
		require.Equal(h.T(), spawn.StatusOK, info.Status)
		require.Empty(h.T(), d.errs)
		require.Len(h.T(), d.acts, 90)
		require.Contains(h.T(), lines, "late")
		require.Contains(h.T(), lines, "finished")
		require.Equal(h.T(), 2, files)
		return
	}
	require.Equal(h.T(), spawn.StatusInterrupted, info.Status)
	require.Equal(h.T(), last, d.acts[len(d.acts)-1], "it acts no more")
	require.NotEmpty(h.T(), d.errs)
	for _, err := range d.errs {
		require.ErrorIs(h.T(), err, agent.ErrStale)
	}
	require.NotContains(h.T(), lines, "late")
	require.NotContains(h.T(), lines, "finished")
	require.Zero(h.T(), files)
}

// An elsewhere is a command, or a question, that a Runtime is given for the tree of another one.
type elsewhere struct {
	name string
	ask  func(h *Harness, rt *agent.Runtime, s elsewhereScene) error
}

// An elsewhereScene is what stands in the tree of the main session: two sub-agents, of which one
// works and one has ended, and a message that was answered.
type elsewhereScene struct {
	main, working, ended session.Key
	shut                 *atomic.Bool // the chat of the main session takes nothing
}

// working returns the config of a bot that answers at once, and whose sub-agents work for an hour
// if they are told to be slow.
func working() agent.Config {
	return agent.Config{
		Grace:   time.Second,
		Threads: agent.Threads{Channels: map[string]agent.ThreadChannel{"discord": {}}},
		Models: agent.Models{Window: func(string) agent.Window {
			return agent.Window{Tokens: 100_000, Keep: 3}
		}},
		Rules: policy.Rules{
			Visibility: policy.VisibilityAll, AgentToAgent: policy.AgentToAgent{Enabled: true},
		},
		Runner: agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if strings.Contains(tn.Input(), "slow") {
				select {
				case <-time.After(time.Hour):
				case <-ctx.Done():
					return agent.Result{}, context.Cause(ctx)
				}
			}
			in, err := tn.Inbox(ctx)
			return agent.Result{Text: fmt.Sprint("did ", tn.Input(), len(in))}, err
		}),
	}
}

// Whatever a Runtime can be asked works for the tree of another process.
func TestCommandsOfAnotherProcess(t *testing.T) {
	for _, test := range slices.Concat(elsewheres(), settledElsewhere(), readElsewhere()) {
		t.Run(test.name, func(t *testing.T) {
			cfg := working()
			shut := new(atomic.Bool)
			cfg.Reply = func(_ context.Context, d agent.Delivery) error {
				if shut.Load() {
					return agent.Permanent(errors.New("the chat is closed"))
				}
				return nil
			}
			Cluster{}.Run(t, cfg, nil, func(h *Harness) {
				s := elsewhereScene{main: h.mainKey(), shut: shut}
				h.Post("hello")
				slow, err := h.Main().Spawn(h.Context(), agent.Task{Text: "slow", Name: "slow"})
				require.NoError(h.T(), err)
				fast, err := h.Main().Spawn(h.Context(), agent.Task{Text: "fast"})
				require.NoError(h.T(), err)
				h.Pass(time.Second)
				s.working, s.ended = slow.Key(), fast.Key()
				require.NoError(h.T(), test.ask(h, h.Runtimes()[1], s))
				h.Pass(time.Minute)
				h.mu.Lock()
				defer h.mu.Unlock()
				for root, owner := range h.owners {
					if root != otherRoot {
						require.Same(h.T(), h.running, owner, "%s is of the first process", root)
					}
				}
			})
		})
	}
}

// expect returns an error unless got is want.
func expect[T comparable](want, got T, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %v, want %v", got, want)
	}
	return err
}

func elsewheres() []elsewhere {
	type scene = elsewhereScene
	return []elsewhere{
		{"Post", func(h *Harness, rt *agent.Runtime, s scene) error {
			_, err := rt.Session(s.main).Post(h.Context(), agent.Incoming{Text: "more"})
			h.Pass(time.Second)
			return expect("did more0", h.Replies()[1].Reply.Text, err)
		}},
		{"Post of a file", func(h *Harness, rt *agent.Runtime, s scene) error {
			_, err := rt.Session(s.main).Post(h.Context(), agent.Incoming{
				Text:  "look",
				Parts: []agent.Part{{Kind: session.PartFile, Data: []byte("a file")}},
			})
			return err
		}},
		{"PostAndWait", func(h *Harness, rt *agent.Runtime, s scene) error {
			reply, err := rt.Session(s.main).PostAndWait(h.Context(), agent.Incoming{Text: "more"})
			return expect("did more0", reply.Text, err)
		}},
		{"Announce", func(h *Harness, rt *agent.Runtime, s scene) error {
			_, err := rt.Announce(h.Context(), s.main, "e1", announce.Event{Task: "backup"})
			h.Pass(time.Second)
			return expect(2, len(h.Replies()), err)
		}},
		{"Spawn and Wait", func(h *Harness, rt *agent.Runtime, s scene) error {
			child, err := rt.Session(s.main).Spawn(h.Context(), agent.Task{Text: "fast"})
			if err != nil {
				return err
			}
			text, err := child.Wait(h.Context())
			return expect(true, strings.HasPrefix(text, "did "), err)
		}},
		{"a tool that spawns", func(h *Harness, rt *agent.Runtime, s scene) error {
			for _, tool := range rt.Session(s.main).Tools() {
				if tool.Name == "sessions_spawn" {
					_, err := tool.Call(h.Context(), agent.ToolCall{
						ID: "1", Name: tool.Name, Args: []byte(`{"task":"fast"}`),
					})
					return err
				}
			}
			return errors.New("there is no such tool")
		}},
		{"Steer", func(h *Harness, rt *agent.Runtime, s scene) error {
			return rt.Session(s.main).Steer(h.Context(), s.working, "hurry")
		}},
		{"Post to a sub-agent", func(h *Harness, rt *agent.Runtime, s scene) error {
			_, err := rt.Session(s.ended).Post(h.Context(), agent.Incoming{Text: "again"})
			h.Pass(time.Second)
			runs, err2 := rt.Session(s.ended).OwnRuns(h.Context())
			return expect(2, len(runs), errors.Join(err, err2))
		}},
		{"CancelTurn", func(h *Harness, rt *agent.Runtime, s scene) error {
			err := rt.Session(s.working).CancelTurn(h.Context())
			h.Pass(5 * time.Second)
			run, err2 := rt.Session(s.working).FindRun(h.Context(), "")
			return expect(spawn.StatusCancelled, run.Status, errors.Join(err, err2))
		}},
		{"Stop", func(h *Harness, rt *agent.Runtime, s scene) error {
			err := rt.Session(s.main).Stop(h.Context())
			run, err2 := rt.Session(s.working).FindRun(h.Context(), "")
			return expect(spawn.StatusCancelled, run.Status, errors.Join(err, err2))
		}},
		{"Reset", func(h *Harness, rt *agent.Runtime, s scene) error {
			return errors.Join(rt.Session(s.working).Stop(h.Context()),
				rt.Session(s.main).Reset(h.Context()))
		}},
		{"DeleteSession and Revive", func(h *Harness, rt *agent.Runtime, s scene) error {
			return errors.Join(rt.DeleteSession(h.Context(), s.ended),
				rt.Session(s.ended).Revive(h.Context()))
		}},
	}
}

// otherRoot is a tree that each process may have.
var otherRoot = session.Must(session.MainKey("other"))

// boundRoute is a conversation that the rows bind.
var boundRoute = session.Route{Channel: "discord", To: "general", Thread: "1"}

// focused binds the conversation to the sub-agent that works.
func focused(h *Harness, rt *agent.Runtime, s elsewhereScene) error {
	_, err := rt.Focus(h.Context(), agent.FocusRequest{
		Conversation: boundRoute, Session: s.working, By: "alice",
	})
	return err
}

// blockedElsewhere has an answer of the main session be blocked, and returns the key of it.
func blockedElsewhere(h *Harness, rt *agent.Runtime, s elsewhereScene) (string, error) {
	s.shut.Store(true)
	defer s.shut.Store(false)
	_, err := rt.Session(s.main).Post(h.Context(), agent.Incoming{Text: "more"})
	h.Pass(time.Minute)
	list, err2 := rt.Blocked(h.Context())
	if err = errors.Join(expect(1, len(list), err), err2); err != nil {
		return "", err
	}
	return list[0].Key, nil
}

// settledElsewhere are the rows of bound conversations, of what is blocked, and of what is sent.
func settledElsewhere() []elsewhere {
	type scene = elsewhereScene
	return []elsewhere{
		{"Focus and Post", func(h *Harness, rt *agent.Runtime, s scene) error {
			err := focused(h, rt, s)
			own, err2 := session.Parse("agent:main:discord:channel:general:thread:1")
			for _, by := range []*agent.Runtime{rt, h.Runtime()} {
				got, err3 := by.Session(own).Post(h.Context(), agent.Incoming{Text: "hello"})
				err = errors.Join(err, expect(s.working, got.Session, err3))
			}
			list, err4 := h.Runtime().Bindings(h.Context())
			return errors.Join(err2, expect(1, len(list), errors.Join(err, err4)))
		}},
		{"Unfocus", func(h *Harness, rt *agent.Runtime, s scene) error {
			err := focused(h, h.Runtime(), s)
			_, err2 := rt.Unfocus(h.Context(), agent.UnfocusRequest{
				Conversation: boundRoute, By: "alice",
			})
			h.Pass(time.Minute)
			run, err3 := h.Runtime().Session(s.working).FindRun(h.Context(), "")
			return expect(0, len(run.Conversations), errors.Join(err, err2, err3))
		}},
		{"Retry", func(h *Harness, rt *agent.Runtime, s scene) error {
			key, err := blockedElsewhere(h, rt, s)
			if err == nil {
				err = rt.Retry(h.Context(), key)
			}
			h.Pass(time.Minute)
			list, err2 := rt.Blocked(h.Context())
			return errors.Join(expect(0, len(list), errors.Join(err, err2)),
				expect("did more0", h.Replies()[1].Reply.Text, nil))
		}},
		{"Dismiss", func(h *Harness, rt *agent.Runtime, s scene) error {
			key, err := blockedElsewhere(h, rt, s)
			if err == nil {
				err = rt.Dismiss(h.Context(), key)
			}
			h.Pass(time.Minute)
			list, err2 := rt.Blocked(h.Context())
			return errors.Join(expect(0, len(list), errors.Join(err, err2)),
				expect(1, len(h.Replies()), nil))
		}},
		{"SetRoute and Ready", func(h *Harness, rt *agent.Runtime, s scene) error {
			to := rt.Session(s.main)
			err := errors.Join(to.SetRoute(h.Context(), boundRoute), to.Ready(h.Context()))
			_, err2 := to.Post(h.Context(), agent.Incoming{Text: "more"})
			h.Pass(time.Second)
			return expect(boundRoute, h.Replies()[1].Reply.Route, errors.Join(err, err2))
		}},
		{"Compact", func(h *Harness, rt *agent.Runtime, s scene) error {
			err := wantError(agent.ErrNothing, rt.Session(s.main).Compact(h.Context()))
			for range 3 {
				_, err2 := rt.Session(s.main).Post(h.Context(), agent.Incoming{Text: "more"})
				h.Pass(time.Second)
				err = errors.Join(err, err2)
			}
			return errors.Join(err, rt.Session(s.main).Compact(h.Context()))
		}},
		{"a tool that sends to another tree", func(h *Harness, rt *agent.Runtime, s scene) error {
			for _, tool := range rt.Session(s.main).Tools() {
				if tool.Name == "sessions_send" {
					out, err := tool.Call(h.Context(), agent.ToolCall{
						ID: "1", Name: tool.Name, Args: []byte(`{"sessionKey":"agent:other:main",` +
							`"message":"hello","timeoutSeconds":20}`),
					})
					return expect(true, strings.Contains(out.Text, "did "), err)
				}
			}
			return errors.New("there is no such tool")
		}},
	}
}

// readElsewhere are the rows that change nothing, and what is refused.
func readElsewhere() []elsewhere {
	type scene = elsewhereScene
	return []elsewhere{
		{"Named, Status, Usage, Sessions", func(h *Harness, rt *agent.Runtime, s scene) error {
			run, err := rt.Session(s.main).Named(h.Context(), "slow")
			_, err2 := rt.Session(s.main).Status(h.Context())
			_, err3 := rt.Usage(h.Context(), agent.UsageQuery{})
			list, err4 := rt.Sessions(h.Context(), agent.SessionQuery{})
			return errors.Join(expect(s.working, run.Key, err), err2, err3,
				expect(true, len(list) > 0, err4))
		}},
		{"History", func(h *Harness, rt *agent.Runtime, s scene) error {
			page, err := rt.Session(s.main).History(h.Context(), agent.HistoryQuery{})
			return expect(2, len(page.Lines), err)
		}},
		{"Idle", func(h *Harness, rt *agent.Runtime, s scene) error {
			return rt.Session(s.main).Idle(h.Context())
		}},
		{"Events", func(h *Harness, rt *agent.Runtime, s scene) error {
			for e, err := range rt.Session(s.main).Events(h.Context()) {
				if err != nil || e.Kind == agent.EventEnded {
					return err
				}
			}
			return errors.New("the events have ended")
		}},
		{"Purge, Blocked", func(h *Harness, rt *agent.Runtime, s scene) error {
			_, err := rt.Purge(h.Context())
			_, err2 := rt.Blocked(h.Context())
			return errors.Join(err, err2, wantError(spawn.ErrNotFound, rt.Retry(h.Context(), "x")),
				wantError(spawn.ErrNotFound, rt.Dismiss(h.Context(), "x")))
		}},
		{"Attachments", func(h *Harness, rt *agent.Runtime, s scene) error {
			child, err := rt.Session(s.main).Spawn(h.Context(), agent.Task{
				Text:        "fast",
				Attachments: []agent.Attachment{{Name: "a.txt", Reader: strings.NewReader("a")}},
			})
			if err != nil {
				return err
			}
			text, err := child.Wait(h.Context())
			return expect(true, strings.HasPrefix(text, "did "), err)
		}},
	}
}

// wantError returns an error unless err is want.
func wantError(want, err error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("got %w, want %w", err, want)
}
