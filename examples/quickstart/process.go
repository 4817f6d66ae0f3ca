package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A process is one life of the bot: a Runtime over a store that outlives it, with tools of its own.
type process struct {
	chat    *agent.Session
	cfg     agent.Config
	desk    *desk
	witness *witness
	events  chan agent.TreeEvent // of the whole tree, in order; closed after the last
	ended   chan error           // what Run returned
	stop    context.CancelFunc
}

// start opens the store and runs everything until ctx ends or the process is ended.
func start(ctx context.Context, o bot, store *session.Store) (*process, error) {
	p := &process{
		desk: newDesk(), witness: newWitness(), events: make(chan agent.TreeEvent),
		ended: make(chan error, 1),
	}
	runner := p.witness.newRunner(script{think: o.think})
	p.cfg = newConfig(runner, p.desk.tools(), o.workspace, o.depth)
	p.cfg.Store, p.cfg.Reply = store, p.witness.recordReply
	rt, err := agent.Open(ctx, p.cfg)
	if err != nil {
		return nil, err
	}
	p.chat = rt.Session(chatKey)
	ctx, p.stop = context.WithCancel(ctx)
	events := p.chat.Events(ctx) // from here on
	go func() {
		defer close(p.events)
		for e, err := range events {
			if err != nil {
				return
			}
			if e.Kind == agent.EventSnapshot {
				continue
			}
			select {
			case p.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() { p.ended <- rt.Run(ctx) }()
	return p, nil
}

// end stops the process at once, with the turns that are under way. It returns when all of its
// goroutines have ended.
func (p *process) end() error {
	p.stop()
	err := <-p.ended
	for range p.events { // until it is closed
	}
	return err
}

// A bot is what all lives of the bot have in common.
type bot struct {
	workspace workspace
	depth     int
	think     func(ctx context.Context) error
}

// A witness stands between the Runtime and the script and remembers what passes between them. A
// program could log the same at the same interfaces.
type witness struct {
	mu       sync.Mutex
	live     int                             // turns under way
	calls    int                             // of the model
	prompts  map[session.Key]agentctx.Prompt // of each session's first turn
	turns    map[string]int                  // the number of each session's last turn
	told     []told
	refusals []refusal
	replies  []agent.Delivery
}

// told is an announcement as a model read it.
type told struct {
	to   string // the session
	turn int    // the turn of that session
	id   string // of the run that ended
	text string
}

// A refusal is the answer that a model gets to a spawn that the rules do not allow.
type refusal struct {
	at                       time.Time
	from                     session.Lineage
	Status                   string
	Rule, Asked, Limit, Path string
	label                    string
}

func newWitness() *witness {
	return &witness{prompts: make(map[session.Key]agentctx.Prompt), turns: make(map[string]int)}
}

// newRunner returns a Runner that runs the model in a Loop and reports to the witness.
func (w *witness) newRunner(model agent.Model) agent.Runner {
	loop := &agent.Loop{
		Model: modelFunc(
			func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error) {
				w.recordAnnouncements(req)
				return model.Generate(ctx, req)
			},
		),
	}
	return agent.RunnerFunc(func(ctx context.Context, t *agent.Turn) (agent.Result, error) {
		w.turnBegins(t)
		defer w.turnEnds()
		for i := range t.Tools {
			if t.Tools[i].Name == "sessions_spawn" {
				t.Tools[i].Call = w.recordRefusals(t, t.Tools[i].Call)
			}
		}
		return loop.Run(ctx, t)
	})
}

type modelFunc func(ctx context.Context, req *agent.ModelRequest) (*agent.ModelResponse, error)

func (f modelFunc) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	return f(ctx, req)
}

func (w *witness) turnBegins(t *agent.Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live++
	w.turns[t.Session.Key.String()] = t.N
	if _, ok := w.prompts[t.Session.Key]; !ok {
		w.prompts[t.Session.Key] = t.Prompt
	}
}

func (w *witness) turnEnds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live--
}

// recordAnnouncements remembers the announcements in a model's request. An announcement that stands
// in the transcript twice counts twice.
func (w *witness) recordAnnouncements(req *agent.ModelRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	here := map[string]int{}
	for _, m := range req.Messages {
		if !m.Internal || m.ID == "" {
			continue
		}
		here[m.ID]++
		if to := req.Prompt.Session; here[m.ID] > w.count(to, m.ID) {
			w.told = append(w.told, told{to, w.turns[to], m.ID, m.Text})
		}
	}
}

// count returns how often a session was told of a run. The caller holds the lock.
func (w *witness) count(to, id string) (n int) {
	for _, t := range w.told {
		if t.to == to && t.id == id {
			n++
		}
	}
	return n
}

// timesTold returns how often a session was told of a run.
func (w *witness) timesTold(to session.Key, id agent.RunID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count(to.String(), string(id))
}

// turnOf returns the turn in which a session was told of a run.
func (w *witness) turnOf(to session.Key, id agent.RunID) (turn int, ok bool) {
	for _, t := range w.announcements() {
		if t.to == to.String() && t.id == string(id) {
			return t.turn, true
		}
	}
	return 0, false
}

// refusalsFrom returns the refusals after the first n.
func (w *witness) refusalsFrom(n int) []refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refusals[n:])
}

type toolFunc = func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error)

// recordRefusals returns a tool function that calls the spawn tool and remembers its refusals.
func (w *witness) recordRefusals(t *agent.Turn, call toolFunc) toolFunc {
	return func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
		out, err := call(ctx, c)
		r := refusal{at: time.Now(), from: t.Session}
		if err == nil && json.Unmarshal([]byte(out.Text), &r) == nil && r.Status == "forbidden" {
			var args struct{ Label string }
			_ = json.Unmarshal(c.Args, &args) // the tool has read them
			r.label = args.Label
			w.mu.Lock()
			w.refusals = append(w.refusals, r)
			w.mu.Unlock()
		}
		return out, err
	}
}

// recordReply is the bot's Config.Reply. A real bot sends the message to its chat here.
func (w *witness) recordReply(_ context.Context, d agent.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies = append(w.replies, d)
	return nil
}

var errEnded = errors.New("the bot has ended")

// next returns the next event of the tree. If wake is closed before the event comes, it returns
// neither an event nor an error. When ctx ends or the events do, it returns an error.
func (p *process) next(ctx context.Context, wake <-chan struct{}) (*agent.TreeEvent, error) {
	select {
	case e, ok := <-p.events:
		if ok {
			return &e, nil
		}
	case <-wake:
		return nil, nil
	case <-ctx.Done():
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("waiting for the next event: %w", err)
	}
	return nil, errEnded
}

// announcements returns what models were told of runs that ended, in the order in which they read
// it.
func (w *witness) announcements() []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

// repliesSoFar returns what was said to the person.
func (w *witness) repliesSoFar() []agent.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.replies)
}

func (w *witness) firstPrompts() map[session.Key]agentctx.Prompt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.prompts)
}

// A snapshot counts the turns under way and the calls of the model so far.
type snapshot struct{ live, calls int }

func (w *witness) snapshot() snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return snapshot{w.live, w.calls}
}
