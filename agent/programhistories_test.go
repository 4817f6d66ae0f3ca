package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A bot whose model has each question worked on by a sub-agent, in random histories of package
// spawntest: people ask, and ask again what may not have come through, a program spawns, stops and
// compacts, the store, the model and the transport fail, and the process dies between any two
// facts, is shut down, or goes on beside the next one. Each question that was accepted is answered,
// or a person is told that it failed. Half of the sub-agents are forked: each begins with the
// question for which it was, and with the same in every process.
func TestProgramHistories(t *testing.T) {
	d := &desk{happened: make(map[string]int)}
	played := 0
	hs := spawntest.Histories{
		N: 500, Acts: 8, Overlap: true,
		New: func(h *spawntest.History) spawntest.Program {
			played++
			return d.program(h)
		},
	}
	playHistories(t, &hs, 15)
	t.Log(d.happened)
	if played < 60 || os.Getenv("OFFSHOOT_SEED") != "" {
		return
	}
	for _, what := range []string{
		"accepted", "answered", "failed", "spawned", "stopped", "compacted", "told of a sub-agent",
		"forked", "fork shown again",
	} {
		if d.happened[what] == 0 {
			t.Errorf("%q did not happen in %d histories", what, played)
		}
	}
}

var deskKey = session.Must(session.MainKey("main"))

// playHistories plays histories, of which OFFSHOOT_FUZZ sets the number in tens, since they take
// long. The step large of .ci/run plays all, and the race detector so many.
func playHistories(t *testing.T, hs *spawntest.Histories, raced int) {
	t.Helper()
	if underRace {
		hs.N = raced
	}
	if n, err := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ")); err == nil && n > 0 {
		t.Setenv("OFFSHOOT_FUZZ", strconv.Itoa(max(n/10, 15)))
	}
	hs.Run(t)
}

// A desk is what outlives the processes of one history, and what happened in all of them.
type desk struct {
	h *spawntest.History

	mu       sync.Mutex
	rts      map[int]*agent.Runtime
	accepted map[string]bool // ids of questions
	answered map[string]bool
	began    map[session.Key][]string // what a forked sub-agent was shown of the conversation
	happened map[string]int
}

func (d *desk) count(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.happened[what]++
}

// program returns what a history is of.
func (d *desk) program(h *spawntest.History) spawntest.Program {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.h, d.rts = h, make(map[int]*agent.Runtime)
	d.accepted, d.answered = make(map[string]bool), make(map[string]bool)
	d.began = make(map[session.Key][]string)
	return spawntest.Program{
		Open: d.open, Commands: d.commands(), Sites: []string{"model", "reply"}, Check: d.check,
	}
}

func (d *desk) open(ctx context.Context, p *spawntest.Process) (spawntest.Server, error) {
	rt, err := agent.Open(ctx, agent.Config{
		Store: p.Store, Runner: &agent.Loop{Model: deskModel{d, p}},
		Models: agent.Models{Window: func(string) agent.Window {
			return agent.Window{Tokens: 100_000, Keep: 4}
		}},
		Reply: func(_ context.Context, out agent.Delivery) error {
			return p.Call("reply", func() error { return d.reply(out.Reply) })
		},
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rts[p.Life] = rt
	return rt, err
}

// reply notes what people are told.
func (d *desk) reply(r *spawn.Reply) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range r.InReplyTo {
		d.answered[id] = true
	}
	d.happened["answered"] += len(r.InReplyTo)
	if r.Failed {
		d.happened["failed"]++
	}
	return nil
}

// deskModel has a sub-agent work on each question. It can be called in the process p.
type deskModel struct {
	d *desk
	p *spawntest.Process
}

func (m deskModel) Generate(
	ctx context.Context, q *agent.ModelRequest,
) (out *agent.ModelResponse, err error) {
	long := time.Duration(m.d.h.Roll(9, q.Input(), q.New)) * time.Second
	if q.Session.Depth > 0 {
		long *= 5
	}
	if err := pause(ctx, long); err != nil {
		return nil, err
	}
	err = m.p.Call("model", func() error {
		out = m.answer(q)
		return nil
	})
	return out, err
}

func (m deskModel) answer(q *agent.ModelRequest) *agent.ModelResponse {
	switch last := q.Messages[len(q.Messages)-1]; {
	case q.Session.Depth > 0:
		m.d.see(q)
		return &agent.ModelResponse{Text: "42"}
	case last.Role == session.MessageTool:
		return &agent.ModelResponse{Text: "It is being looked at."}
	case last.Internal:
		m.d.count("told of a sub-agent")
		return &agent.ModelResponse{Text: "It is 42."}
	}
	args := json.RawMessage(`{"task":"work on it"}`)
	asked := questions.FindAllString(q.Input(), -1)
	if len(asked) > 0 && m.d.h.Roll(2, "forks", asked) == 0 {
		args = fmt.Appendf(nil, `{"task":"fork for %s","context":"fork"}`, asked[len(asked)-1])
	}
	return &agent.ModelResponse{ToolCalls: []agent.ToolCall{
		{ID: "1", Name: "sessions_spawn", Args: args},
	}}
}

// questions finds what people ask.
var questions = regexp.MustCompile(`What about [^?]*\?`)

// see compares what a forked sub-agent is shown of the conversation with the question for which it
// was forked, and with what it was shown before.
func (d *desk) see(q *agent.ModelRequest) {
	_, question, forked := strings.Cut(fmt.Sprint(forkedLines(q.Messages)), "task: fork for ")
	if !forked {
		return
	}
	question = questions.FindString(question)
	lines := slices.DeleteFunc(forkedLines(q.Messages), func(line string) bool {
		return !strings.HasPrefix(line, "> ")
	})
	d.mu.Lock()
	old, again := d.began[q.Session.Key]
	d.began[q.Session.Key] = lines
	d.mu.Unlock()
	switch {
	case !strings.Contains(fmt.Sprint(lines), question):
		d.h.Errorf("what was forked for %q begins with %q", question, lines)
	case !again:
		d.count("forked")
	case !slices.Equal(old, lines):
		d.h.Errorf("%s began with %q, and now with %q", q.Session.Key, old, lines)
	default:
		d.count("fork shown again")
	}
}

// commands returns what people and the program do.
func (d *desk) commands() (list []spawntest.Command) {
	for _, c := range []struct {
		name   string
		weight int
		do     func(ctx context.Context, rt *agent.Runtime, what string) error
	}{
		{"ask", 5, d.ask},
		{"spawn", 2, d.spawn},
		{"stop", 2, d.stop},
		{"compact", 1, d.compact},
		{"tell", 2, d.tell},
	} {
		list = append(list, spawntest.Command{Name: c.name, Weight: c.weight, Do: func(
			ctx context.Context, p *spawntest.Process, n int,
		) {
			d.mu.Lock()
			rt := d.rts[p.Life]
			d.mu.Unlock()
			what := fmt.Sprintf("%d of life %d", n, p.Life)
			d.h.Logf("%s %s: %v", c.name, what, c.do(ctx, rt, what))
		}})
	}
	return list
}

var errNotAsked = errors.New("it was not asked")

// ask asks a question under one ID, also when it asks again.
func (d *desk) ask(ctx context.Context, rt *agent.Runtime, id string) (err error) {
	err = errNotAsked
	for i := 0; i < 3 && err != nil; i++ {
		m := agent.Incoming{ID: id, Text: "What about " + id + "?"}
		_, err = rt.Session(deskKey).Post(ctx, m)
	}
	if err != nil {
		return err
	}
	d.count("accepted")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accepted[id] = true
	return nil
}

func (d *desk) spawn(ctx context.Context, rt *agent.Runtime, key string) error {
	_, err := rt.Session(deskKey).Spawn(ctx, agent.Task{Text: "job " + key, Key: key})
	if err == nil {
		d.count("spawned")
	}
	return err
}

func (d *desk) stop(ctx context.Context, rt *agent.Runtime, _ string) error {
	runs, err := rt.Session(deskKey).Runs(ctx)
	for _, run := range runs {
		if !run.Status.Terminal() {
			d.count("stopped")
			return rt.Session(run.Key).Stop(ctx)
		}
	}
	return err
}

// tell tells a sub-agent that has ended more.
func (d *desk) tell(ctx context.Context, rt *agent.Runtime, what string) error {
	runs, err := rt.Session(deskKey).Runs(ctx)
	for _, run := range slices.Backward(runs) {
		if run.Status.Terminal() {
			m := agent.Incoming{ID: what, Text: "Is that so?"}
			return errorOf(rt.Session(run.Key).Post(ctx, m))
		}
	}
	return err
}

func (d *desk) compact(ctx context.Context, rt *agent.Runtime, _ string) error {
	err := rt.Session(deskKey).Compact(ctx)
	if err == nil {
		d.count("compacted")
	}
	return err
}

// check returns which question has no answer.
func (d *desk) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(d.accepted)) {
		if !d.answered[id] {
			return fmt.Errorf("question %s was accepted, and is not answered", id)
		}
	}
	return nil
}
