package agenttest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// runnerRules are the rules of a Runner, in the order of their numbers.
var runnerRules = []runnerRule{
	{
		"answer", "Run returns what its agent has answered, when that has answered.",
		nil, checkAnswer,
	},
	{
		"inputs", "The agent is told each message once: those of the turn, and with Memory those " +
			"of the turns before.",
		nil, checkInputs,
	},
	{
		"together", "The agent is told all new messages of a turn, in their order.",
		nil, checkTogether,
	},
	{
		"arrivals", "What arrives while the agent works is read, by Turn.Inbox or by the next " +
			"turn, and not by both.",
		nil, checkArrivals,
	},
	{"apart", "Sessions with turns at the same time do not learn of each other.", nil, checkApart},
	{
		"deltas", "The deltas of an answer add up to the answer.",
		func(o *RunnerOptions) bool { return o.Deltas }, checkDeltas,
	},
	{
		"usage", "What the agent consumes is accounted for, once.",
		func(o *RunnerOptions) bool { return o.Usage }, checkUsage,
	},
	{
		"failure", "A turn whose agent fails fails, and the next one is like any other.",
		nil, checkFailure,
	},
	{
		"cancel", "Run returns within the grace period when its turn is cancelled, with an error, " +
			"and the next turn is like any other.",
		nil, checkCancel,
	},
	{
		"partial", "A turn that is cancelled returns what the agent has said so far.",
		func(o *RunnerOptions) bool { return o.Partial }, checkPartial,
	},
	{
		"panic", "An agent that panics, or a process of it that dies, costs its turn and nothing " +
			"else.",
		nil, func(p *runnerProbe) { checkBreak(p, CuePanic) },
	},
	{
		"exit", "An agent that ends its goroutine, or a process of it that ends, costs its turn " +
			"and nothing else.",
		nil, func(p *runnerProbe) { checkBreak(p, CueExit) },
	},
	{
		"resume", "The agent knows the conversation when the process was started again.",
		func(o *RunnerOptions) bool { return o.Resume }, checkResume,
	},
	{"reset", "After a reset the agent knows nothing of the conversation before.", nil, checkReset},
	{
		"goroutines", "No goroutine of the Runner is left when the Runtime has shut down and the " +
			"Runner was closed.",
		nil, checkGoroutines,
	},
	{
		"follow-up", "The agent of a sub-agent knows the conversation in its later runs.",
		func(o *RunnerOptions) bool { return o.Memory }, checkFollowUp,
	},
	{
		"cut short", "The agent knows what it was told in a turn that was cancelled, also if that " +
			"was the first one.",
		func(o *RunnerOptions) bool { return o.Memory }, checkCutShort,
	},
	{
		"killed", "A turn in which the process dies is repeated, and the agent does not begin " +
			"anew: Turn.SetState has its conversation as soon as that has an id, and it is not " +
			"told twice what it knows.",
		func(o *RunnerOptions) bool { return o.Memory && o.Resume }, checkKilled,
	},
}

// pieces are what the agent says in most of the rules.
var pieces = []string{"It ", "is ", "grün", ", and ", "42."}

func checkAnswer(p *runnerProbe) {
	got := p.answer(p.chat(1), Cue{ID: "a", Do: CueAnswer, Say: pieces})
	if want := strings.Join(pieces, ""); got != want {
		p.fail("it returned %q, and the agent said %q", got, want)
	}
}

// recite fails the rule unless the agent of a session was told these cues and the one that asks.
func (p *runnerProbe) recite(key session.Key, id string, before ...string) {
	p.t.Helper()
	want := id
	if p.o.Memory {
		want = strings.Join(append(before, id), " ")
	}
	if got := p.answer(key, Cue{ID: id, Do: CueRecite}); got != want {
		p.fail("the agent was told %q, want %q", got, want)
	}
}

func checkInputs(p *runnerProbe) {
	key := p.chat(1)
	for _, id := range []string{"a", "b"} {
		p.answer(key, Cue{ID: id, Do: CueAnswer, Say: []string{"Yes."}})
	}
	p.recite(key, "c", "a", "b")
	p.recite(key, "d", "a", "b", "c")
}

// checkTogether posts two messages before Run, so that they are of one turn.
func checkTogether(p *runnerProbe) {
	key := p.chat(1)
	p.close()
	p.open(func() {
		p.post(key, Cue{ID: "a", Do: CueAnswer, Say: pieces})
		p.post(key, Cue{ID: "b", Do: CueRecite})
	})
	p.begin(key)
	turn, ok := p.end(key, p.o.Patience)
	if !ok {
		p.fail("Run has not returned for %v, and its agent was done", p.o.Patience)
	}
	p.must("the turn failed", turn.err)
	if want := "a b"; turn.res.Text != want {
		p.fail("in a turn with two messages the agent was told %q, want %q", turn.res.Text, want)
	}
	p.idle(key)
	p.recite(key, "c", "a", "b")
}

func checkArrivals(p *runnerProbe) {
	key := p.chat(1)
	p.post(key, Cue{ID: "a", Do: CueAnswer, Say: []string{"First."}, Pause: p.o.Settle})
	p.begin(key)
	p.post(key, Cue{ID: "b", Do: CueAnswer, Say: []string{"Second."}})
	p.idle(key)
	answered := false
	for len(p.ended) > 0 {
		turn := <-p.ended
		p.must("a turn failed", turn.err)
		answered = answered || strings.Contains(turn.res.Text, "Second.")
	}
	if !answered {
		p.fail("no turn has answered it")
	}
	p.recite(key, "c", "a", "b")
}

func checkApart(p *runnerProbe) {
	one, two := p.chat(1), p.chat(2)
	p.post(one, Cue{ID: "a", Do: CueAnswer, Say: []string{"One."}, Pause: p.o.Settle})
	p.begin(one)
	if got := p.answer(two, Cue{ID: "b", Do: CueRecite}); got != "b" {
		p.fail("the agent of a session was told %q, want %q", got, "b")
	}
	p.idle(one)
	p.recite(one, "c", "a")
	p.recite(two, "d", "b")
}

func checkDeltas(p *runnerProbe) {
	key := p.chat(1)
	p.answer(key, Cue{ID: "a", Do: CueAnswer, Say: []string{"Yes."}}) // the tree exists
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	w := p.watch(ctx, key)
	turn := p.ask(key, Cue{ID: "b", Do: CueAnswer, Say: pieces})
	p.must("the turn failed", turn.err)
	for {
		e, ok := w.next(p.o.Patience)
		switch {
		case !ok:
			p.fail("the deltas do not come to an end")
		case e.Kind == agent.EventTurnEnded && e.Turn == 2:
			if w.text != turn.res.Text {
				p.fail("they add up to %q, and the answer is %q", w.text, turn.res.Text)
			}
			return
		}
	}
}

// A deltaWatch reads the events of a tree.
type deltaWatch struct {
	events chan agent.TreeEvent
	of     session.Key // whose deltas count
	answer int
	text   string // of the deltas of the last answer
}

// watch watches a tree from now on, until ctx ends.
func (p *runnerProbe) watch(ctx context.Context, root session.Key) *deltaWatch {
	p.t.Helper()
	w := &deltaWatch{events: make(chan agent.TreeEvent, probeTurns), of: root}
	q := agent.EventQuery{Root: root, Deltas: agent.DeltasRaw}
	go func() {
		for e, err := range p.rt.Events(ctx, q) {
			if err != nil {
				return
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	if _, ok := w.next(p.o.Patience); !ok { // it has its snapshot
		p.fail("there are no events")
	}
	return w
}

// next returns the next event, and adds the deltas of an answer up.
func (w *deltaWatch) next(within time.Duration) (agent.TreeEvent, bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case e := <-w.events:
		if e.Kind == agent.EventDelta && e.Session == w.of {
			if e.Answer != w.answer || e.Void {
				w.answer, w.text = e.Answer, ""
			}
			w.text += e.Text
		}
		return e, true
	case <-late.C:
		return agent.TreeEvent{}, false
	}
}

func checkUsage(p *runnerProbe) {
	key := p.chat(1)
	used := agent.Usage{Input: 12, Output: 34}
	p.answer(key, Cue{ID: "a", Do: CueAnswer, Say: pieces, Usage: used})
	p.answer(key, Cue{ID: "b", Do: CueAnswer, Say: pieces, Usage: used})
	report, err := p.rt.Usage(p.t.Context(), agent.UsageQuery{Session: key})
	p.must("asking for the usage", err)
	if got := report.Total; got.Input != 2*used.Input || got.Output != 2*used.Output {
		p.fail("of two turns with %d tokens in and %d out each there are %d and %d", used.Input,
			used.Output, got.Input, got.Output)
	}
}

func checkFailure(p *runnerProbe) {
	key := p.chat(1)
	if turn := p.ask(key, Cue{ID: "a", Do: CueFail}); turn.err == nil {
		p.fail("Run returned %q and no error", turn.res.Text)
	}
	p.goesOn(key)
}

// goesOn fails the rule if the next turn of a session is not like any other.
func (p *runnerProbe) goesOn(key session.Key) {
	p.t.Helper()
	if got := p.answer(key, Cue{ID: "on", Do: CueAnswer, Say: []string{"On."}}); got != "On." {
		p.fail("the next turn returned %q, want %q", got, "On.")
	}
}

// works has an agent say something and then work until its turn is cancelled. tell tells it in the
// tree of root, and returns its session. works returns when the agent has said it.
func (p *runnerProbe) works(root session.Key, tell func(c Cue) session.Key) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	var w *deltaWatch
	if p.o.Deltas {
		p.answer(root, Cue{ID: "before", Do: CueAnswer, Say: []string{"Yes."}})
		w = p.watch(ctx, root)
	}
	key := tell(Cue{ID: "work", Do: CueWork, Say: pieces})
	p.begin(key)
	if w == nil {
		p.within(p.o.Settle, nil)
		return
	}
	w.of = key
	for w.text != strings.Join(pieces, "") {
		patience := p.o.Patience
		if w.text != "" {
			patience = p.o.Settle
		}
		if _, ok := w.next(patience); !ok {
			return // it is for the rule of deltas
		}
	}
}

func checkCancel(p *runnerProbe) {
	key := p.chat(1)
	p.works(key, func(c Cue) session.Key { p.post(key, c); return key })
	cancelled := make(chan error, 1)
	s := p.rt.Session(key)
	go func() { cancelled <- s.CancelTurn(p.t.Context()) }()
	turn, ok := p.end(key, p.o.Grace)
	switch {
	case !ok:
		p.fail("it has not returned %v after its turn was cancelled", p.o.Grace)
	case turn.err == nil:
		p.fail("Run returned no error")
	}
	p.must("cancelling the turn", <-cancelled)
	p.goesOn(key)
}

func checkPartial(p *runnerProbe) {
	var child *agent.Child[string]
	p.works(p.chat(1), func(c Cue) session.Key {
		var err error
		child, err = p.rt.Session(p.chat(1)).Spawn(p.t.Context(), agent.Task{Text: c.String()})
		p.must("spawning", err)
		return child.Key()
	})
	p.must("stopping", child.Stop(p.t.Context()))
	info, err := child.Info(p.t.Context())
	p.must("asking for the result", err)
	if want := strings.Join(pieces, ""); !strings.Contains(info.Result.Text, want) {
		p.fail("the result is %q, and the agent had said %q", info.Result.Text, want)
	}
}

func checkBreak(p *runnerProbe, act CueAct) {
	key := p.chat(1)
	turn := p.ask(key, Cue{ID: "a", Do: act})
	if turn.err == nil {
		p.fail("Run returned %q and no error", turn.res.Text)
	}
	p.goesOn(key)
	p.goesOn(p.chat(2))
}

func checkResume(p *runnerProbe) {
	key := p.chat(1)
	before := make([]string, 0, 4)
	for i := range 2 {
		id := fmt.Sprint("told-", i)
		p.answer(key, Cue{ID: id, Do: CueAnswer, Say: pieces})
		p.restart()
		p.recite(key, "asked-"+fmt.Sprint(i), append(before, id)...)
		before = append(before, id, "asked-"+fmt.Sprint(i))
	}
}

func checkReset(p *runnerProbe) {
	key := p.chat(1)
	p.answer(key, Cue{ID: "a", Do: CueAnswer, Say: pieces})
	p.must("resetting the session", p.rt.Session(key).Reset(p.t.Context()))
	if got := p.answer(key, Cue{ID: "b", Do: CueRecite}); got != "b" {
		p.fail("the agent was told %q, want %q", got, "b")
	}
}

func checkGoroutines(p *runnerProbe) {
	key := p.chat(1)
	p.answer(key, Cue{ID: "a", Do: CueAnswer, Say: pieces})
	p.works(key, func(c Cue) session.Key { p.post(key, c); return key })
	_ = p.rt.Session(key).CancelTurn(p.t.Context())
	p.idle(key)
}

func checkFollowUp(p *runnerProbe) {
	cue := Cue{ID: "a", Do: CueAnswer, Say: pieces}
	child, err := p.rt.Session(p.chat(1)).Spawn(p.t.Context(), agent.Task{Text: cue.String()})
	p.must("spawning", err)
	p.begin(child.Key())
	if _, ok := p.end(child.Key(), p.o.Patience); !ok {
		p.fail("Run has not returned for %v, and its agent was done", p.o.Patience)
	}
	p.idle(p.chat(1))
	p.recite(child.Key(), "b", "a")
	p.recite(child.Key(), "c", "a", "b")
}

func checkCutShort(p *runnerProbe) {
	key := p.chat(1)
	p.post(key, Cue{ID: "a", Do: CueWork, Say: pieces})
	p.begin(key)
	p.within(p.o.Settle, nil)
	p.must("cancelling the turn", p.rt.Session(key).CancelTurn(p.t.Context()))
	if _, ok := p.end(key, p.o.Grace); !ok {
		p.fail("it has not returned %v after its turn was cancelled", p.o.Grace)
	}
	p.idle(key)
	p.recite(key, "b", "a")
}

// checkKilled kills the process in a turn, which the next process repeats.
func checkKilled(p *runnerProbe) {
	key := p.chat(1)
	p.post(key, Cue{ID: "a", Do: CueAnswer, Say: pieces, Pause: 2 * p.o.Settle})
	p.begin(key)
	p.within(p.o.Settle, nil)
	p.kill()
	p.begin(key)
	turn, ok := p.end(key, p.o.Patience)
	for ok && turn.late { // it is the one that was killed
		turn, ok = p.end(key, p.o.Patience)
	}
	if !ok {
		p.fail("Run has not returned for %v, and its agent was done", p.o.Patience)
	}
	p.must("the turn that repeats it failed", turn.err)
	if turn.before == "" && turn.after != "" {
		p.fail("the turn that repeats it found no state and set one, %.100q: it was not set %v "+
			"after the agent began", turn.after, p.o.Settle)
	}
	p.idle(key)
	p.recite(key, "b", "a")
}
