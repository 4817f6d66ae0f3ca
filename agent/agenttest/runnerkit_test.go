package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// cueModel is the model of a Loop that does as it is told.
type cueModel struct{}

// hangTool is what the model calls when it works.
const hangTool = "work"

// Generate implements agent.Model.
func (cueModel) Generate(context.Context, *agent.ModelRequest) (*agent.ModelResponse, error) {
	return nil, errors.New("it is called as a stream")
}

// Stream implements agent.StreamModel.
func (cueModel) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		cues := cuesOf(req.Messages)
		last := cues[len(cues)-1]
		if last.Do == CueWork { // a Loop keeps what was said before a tool is called
			for _, piece := range last.Say {
				yield(agent.ModelChunk{Text: piece}, nil)
			}
			yield(agent.ModelChunk{Response: &agent.ModelResponse{
				ToolCalls: []agent.ToolCall{{ID: "1", Name: hangTool}},
			}}, nil)
			return
		}
		text, err := Play(ctx, cues, func(piece string) {
			yield(agent.ModelChunk{Text: piece}, nil)
		})
		if err != nil {
			yield(agent.ModelChunk{}, err)
			return
		}
		yield(agent.ModelChunk{Response: &agent.ModelResponse{Text: text, Usage: last.Usage}}, nil)
	}
}

// cuesOf returns the cues of a conversation.
func cuesOf(messages []agent.Message) []Cue {
	var texts []string
	for _, m := range messages {
		if m.Role == session.MessageUser {
			texts = append(texts, m.Text)
		}
	}
	return Cues(texts...)
}

// A Loop keeps every rule.
func TestLoopKeepsToTheContract(t *testing.T) {
	o := RunnerOptions{
		Memory: true, Resume: true, Deltas: true, Usage: true, Partial: true,
		Settle: 50 * time.Millisecond,
	}
	o.Config.Tools = []agent.Tool{{
		Name: hangTool,
		Call: func(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
			<-ctx.Done()
			return agent.ToolResult{}, context.Cause(ctx)
		},
	}}
	TestRunner(t, func(testing.TB) func() agent.Runner {
		return func() agent.Runner { return &agent.Loop{Model: cueModel{}} }
	}, o)
}

// A cueRunner is a Runner of another kind: it keeps the contract, and breaks it in one way.
type cueRunner struct {
	broken  string
	release <-chan struct{} // closed when the test is over

	lock   chan struct{}    // it has an item while it is held
	memory map[string][]Cue // of all sessions and processes, for those who break a rule
	told   []Cue            // of all sessions
	ids    map[session.Key]string
}

// recall returns what a foreign agent knows that keeps its conversations under ids of its own, of
// which the state of a session has one, and what it is told now. The caller holds the lock.
func (r *cueRunner) recall(
	ctx context.Context, t *agent.Turn, fresh []Cue,
) (cues []Cue, id string, err error) {
	key := t.Session.Key
	switch id = string(t.State()); r.broken {
	case "state: in the process":
		if id = r.ids[key]; t.New == len(t.Messages) {
			id = "" // it was reset
		}
	case "state: of the key":
		id = key.String()
	case "state: of the run":
		if t.Run != "" {
			id = string(t.Run)
		}
	}
	if id == "" {
		id = fmt.Sprint("conversation ", len(r.memory))
		if r.ids == nil {
			r.ids = make(map[session.Key]string)
		}
		r.ids[key] = id
		if !strings.HasPrefix(r.broken, "state: at the end") {
			err = t.SetState(ctx, []byte(id))
		}
	}
	if r.broken == "state: the last message" {
		fresh = fresh[len(fresh)-1:]
	}
	for _, c := range fresh {
		again := slices.ContainsFunc(r.memory[id], func(o Cue) bool { return o.ID == c.ID })
		if !again || r.broken == "state: tells again" {
			r.memory[id] = append(r.memory[id], c)
		}
	}
	return slices.Clone(r.memory[id]), id, err
}

// Run implements agent.Runner.
func (r *cueRunner) Run(ctx context.Context, t *agent.Turn) (res agent.Result, err error) {
	cues := cuesOf(t.Messages)
	fresh := cuesOf(t.Messages[len(t.Messages)-t.New:])
	select {
	case r.lock <- struct{}{}:
	case <-r.release:
		return res, errors.New("the test is over")
	}
	switch key := t.Session.Key.String(); r.broken {
	case "tells messages twice":
		cues = append(slices.Clone(cues), fresh...)
	case "one memory for all":
		r.told = append(r.told, fresh...)
		cues = slices.Clone(r.told)
	case "a memory of the process":
		r.told = append(r.told, fresh...)
		cues = slices.DeleteFunc(slices.Clone(r.told), func(c Cue) bool {
			return !slices.ContainsFunc(cues, func(o Cue) bool { return o.ID == c.ID })
		})
	case "a memory of the key":
		r.memory[key] = append(r.memory[key], fresh...)
		cues = slices.Clone(r.memory[key])
	case "a memory of the run":
		if run := string(t.Run); run != "" {
			r.memory[run] = append(r.memory[run], fresh...)
			cues = slices.Clone(r.memory[run])
		}
	case "forgets what was cut":
		cues = slices.DeleteFunc(slices.Clone(cues), func(c Cue) bool {
			return slices.ContainsFunc(r.told, func(o Cue) bool { return o.ID == c.ID })
		})
		defer func() {
			if ctx.Err() != nil {
				r.told = append(r.told, fresh...)
			}
		}()
	}
	id := ""
	if strings.HasPrefix(r.broken, "state") {
		cues, id, err = r.recall(ctx, t, fresh)
	}
	<-r.lock
	if err != nil {
		return res, err
	}
	if strings.HasPrefix(r.broken, "state: at the end") {
		defer func() {
			if err == nil || r.broken == "state: at the end, whatever that is" {
				err = cmp.Or(err, t.SetState(context.WithoutCancel(ctx), []byte(id)))
			}
		}()
	}
	last := cues[len(cues)-1]
	shown := 0
	say := func(piece string) {
		if shown++; r.broken != "loses a delta" || shown != 2 {
			t.Delta(piece)
		}
	}
	res.Text, err = r.play(ctx, cues, say)
	if arrived, inbox := t.Inbox(ctx); inbox == nil && err == nil && len(arrived) > 0 &&
		r.broken != "drops what arrives" {
		var more string
		if id != "" {
			r.memory[id] = append(r.memory[id], cuesOf(arrived)...)
		}
		more, err = r.play(ctx, append(cues, cuesOf(arrived)...), say)
		res.Text += "\n" + more
	}
	if r.broken != "does not account" {
		_ = t.Spend(ctx, last.Usage)
	}
	return r.spoil(ctx, t, res, err)
}

// play has the agent answer, in a goroutine of its own.
func (r *cueRunner) play(
	ctx context.Context, cues []Cue, say func(string),
) (text string, err error) {
	if r.broken == "holds a lock in a panic" && cues[len(cues)-1].Do == CuePanic {
		r.lock <- struct{}{}
		panic("with the lock held")
	}
	err = errors.New("the agent has gone")
	done := make(chan struct{})
	go func() {
		defer func() {
			if r.broken == "waits for an agent that is gone" && err != nil &&
				cues[len(cues)-1].Do == CueExit {
				return
			}
			close(done)
		}()
		defer func() {
			if caught := recover(); caught != nil {
				err = fmt.Errorf("the agent panicked: %v", caught)
			}
		}()
		text, err = Play(ctx, cues, say)
	}()
	select {
	case <-done:
	case <-r.release:
		runtime.Goexit()
	}
	return text, err
}

// spoil breaks what a turn came to.
func (r *cueRunner) spoil(
	ctx context.Context, t *agent.Turn, res agent.Result, err error,
) (agent.Result, error) {
	switch r.broken {
	case "answers otherwise":
		if err == nil && res.Text == strings.Join(pieces, "") {
			res.Text = "42"
		}
	case "never returns":
		<-r.release
	case "hides failures":
		if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "as it was asked to") &&
			!strings.Contains(err.Error(), "panic") {
			return agent.Result{Text: err.Error()}, nil
		}
	case "outlives its cancel":
		if ctx.Err() != nil && t.Run == "" {
			select {
			case <-time.After(time.Hour):
			case <-r.release:
			}
		}
	case "forgets what was said":
		if ctx.Err() != nil {
			return agent.Result{}, err
		}
	case "leaves a goroutine":
		go func() { <-r.release }()
	}
	return res, err
}

// Each rule of the kit notices a Runner that breaks it, and no other rule does.
func TestBrokenRunners(t *testing.T) {
	for name, rules := range map[string][]string{
		"":                  nil, // it is not broken
		"answers otherwise": {"answer", "deltas"},
		"never returns":     nil,
		"tells messages twice": {
			"inputs", "together", "arrivals", "apart", "resume", "reset", "follow-up", "cut short",
			"killed",
		},
		"drops what arrives":                  {"arrivals"},
		"one memory for all":                  {"arrivals", "apart", "resume", "reset"},
		"loses a delta":                       {"deltas"},
		"does not account":                    {"usage"},
		"hides failures":                      {"failure"},
		"outlives its cancel":                 {"cancel", "goroutines", "cut short"},
		"forgets what was said":               {"partial"},
		"holds a lock in a panic":             {"panic"},
		"waits for an agent that is gone":     {"exit"},
		"a memory of the process":             {"arrivals", "resume"},
		"a memory of the key":                 {"arrivals", "reset", "killed"},
		"leaves a goroutine":                  {"goroutines"},
		"a memory of the run":                 {"follow-up"},
		"forgets what was cut":                {"cut short"},
		"state":                               nil, // it is not broken
		"state: in the process":               {"resume"},
		"state: of the key":                   {"reset"},
		"state: of the run":                   {"follow-up"},
		"state: at the end":                   {"cut short", "killed"},
		"state: at the end, whatever that is": {"killed"},
		"state: the last message":             {"together"},
		"state: tells again":                  {"killed"},
	} {
		t.Run(name, func(t *testing.T) {
			var broken []string
			for i := range runnerRules {
				if failed := brokenRule(t, i, name); failed != "" {
					require.Contains(t, failed, runnerRules[i].sentence)
					broken = append(broken, runnerRules[i].name)
				}
			}
			if name == "never returns" {
				require.Len(t, broken, len(runnerRules))
				return
			}
			require.ElementsMatch(t, rules, broken)
		})
	}
}

// brokenRule tries one rule with a broken Runner, and returns what it says of it.
func brokenRule(t *testing.T, rule int, broken string) (failed string) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := &recorder{TB: t}
		tried := make(chan struct{})
		go func() {
			defer close(tried)
			kept := &cueRunner{memory: make(map[string][]Cue)}
			runnerRules[rule].try(r, rule+1, func() agent.Runner {
				return &cueRunner{
					broken: broken, release: release, memory: kept.memory,
					lock: make(chan struct{}, 1),
				}
			}, RunnerOptions{
				Memory: true, Resume: true, Deltas: true, Usage: true, Partial: true,
			})
		}()
		<-tried
		close(release)
		time.Sleep(time.Hour)
		failed = strings.Join(r.failed, "\n")
	})
	return failed
}

// Without a Runner to open, the kit says so, and does not end the test binary.
func TestRunnerKitWithoutARunner(t *testing.T) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		openerOf(r, nil)
	}()
	<-done
	require.Contains(t, strings.Join(r.failed, ""), "fresh is nil")
	r = &recorder{TB: t}
	done = make(chan struct{})
	go func() {
		defer close(done)
		openerOf(r, func(testing.TB) func() agent.Runner { return nil })
	}()
	<-done
	require.Contains(t, strings.Join(r.failed, ""), "fresh has returned nil")
}
