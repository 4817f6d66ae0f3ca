package spawntest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Step is one thing that a turn does. It changes the outcome, or ends the turn with an error.
type Step func(ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult) error

// A Play is what one turn does, step by step. It ends with the first step that returns an error.
type Play []Step

// Say has the turn answer with a text.
func Say(text string) Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Result.Text = text
		return nil
	}
}

// Reply has a top-level session say something to people.
func Reply(text string) Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Reply = text
		return nil
	}
}

// Silent asks that nothing be announced.
func Silent() Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Silent = true
		return nil
	}
}

// Fail ends the turn with an error. What it said before is its partial answer.
func Fail(err error) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error { return err }
}

// Panic panics.
func Panic(v any) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error { panic(v) }
}

// Delay waits, and returns early with the error of the turn's context if that ends.
func Delay(d time.Duration) Step {
	return func(ctx context.Context, _ *spawn.TurnInput, _ *spawn.TurnResult) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Block waits until the turn is cancelled or release is closed; nil never is.
func Block(release <-chan struct{}) Step {
	return func(ctx context.Context, _ *spawn.TurnInput, _ *spawn.TurnResult) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Ignore waits until release is closed, whether the turn is cancelled or not.
func Ignore(release <-chan struct{}) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error {
		<-release
		return nil
	}
}

// Linger waits until the turn is cancelled, and then for some time more.
func Linger(d time.Duration) Step {
	return func(ctx context.Context, _ *spawn.TurnInput, _ *spawn.TurnResult) error {
		<-ctx.Done()
		<-time.After(d)
		return context.Cause(ctx)
	}
}

// Spawn spawns children. A refusal ends the turn.
func Spawn(requests ...spawn.Request) Step {
	return func(ctx context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		for _, q := range requests {
			if _, err := t.Spawn(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}
}

// Yield lets the session wait for all its children after the turn, or as opt says.
func Yield(opt spawn.JoinOptions) Step {
	return func(_ context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		t.Yield(opt)
		return nil
	}
}

// Await spawns children and waits for them within the turn.
func Await(opt spawn.JoinOptions, requests ...spawn.Request) Step {
	return func(ctx context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		var keys []session.Key
		for _, q := range requests {
			info, err := t.Spawn(ctx, q)
			if err != nil {
				return err
			}
			keys = append(keys, info.Key)
		}
		_, err := t.Wait(ctx, keys, opt)
		return err
	}
}

// Spend accounts for a model call.
func Spend(u session.Usage) Step {
	return func(ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult) error {
		err := t.Spend(ctx, u)
		out.Result.Usage = t.Spent()
		return err
	}
}

// Do does whatever f does.
func Do(f func(ctx context.Context, t *spawn.TurnInput) error) Step {
	return func(ctx context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error { return f(ctx, t) }
}

// A Runner is a spawn.Runner that plays scripts and notes what it was asked for. The zero Runner answers every turn with "ok". It
// is safe for concurrent use.
type Runner struct {
	mu      sync.Mutex
	scripts map[string][]Play
	played  map[session.Key]int
	turns   []Call
}

// A Call is one call of a Runner.
type Call struct {
	Session session.Key
	Label   string
	Turn    int
	Inputs  []spawn.Input
	Retry   bool
	Outcome spawn.TurnResult
	Err     error
	Started time.Time
	Ended   time.Time // zero while it is under way
}

// On gives the plays of the runs with a label, else with a task, or of the top-level session with a key as text; the empty name is for all
// others. A session's first turn gets the first play, and so on; the last play is repeated. A turn
// that repeats one that a crash interrupted plays the same again.
func (r *Runner) On(name string, plays ...Play) *Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scripts == nil {
		r.scripts = make(map[string][]Play)
	}
	r.scripts[name] = plays
	return r
}

// RunTurn implements spawn.Runner.
func (r *Runner) RunTurn(ctx context.Context, t *spawn.TurnInput) (out spawn.TurnResult, err error) {
	play, n := r.begin(t)
	defer func() {
		failed := err
		p := recover()
		if p != nil {
			failed = fmt.Errorf("panic: %v", p)
		}
		r.mu.Lock()
		r.turns[n].Outcome, r.turns[n].Err, r.turns[n].Ended = out, failed, time.Now()
		r.mu.Unlock()
		if p != nil {
			panic(p)
		}
	}()
	for _, step := range play {
		if err := step(ctx, t, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// begin notes a call and returns what it is to play.
func (r *Runner) begin(t *spawn.TurnInput) (play Play, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.played == nil {
		r.played = make(map[session.Key]int)
	}
	key := t.Session.Key
	plays := []Play{{Say("ok")}}
	if p := r.scripts[""]; len(p) > 0 {
		plays = p
	}
	for _, name := range []string{key.String(), t.Run.Task, t.Run.Label} {
		if p := r.scripts[name]; name != "" && len(p) > 0 {
			plays = p
		}
	}
	if t.Retry {
		r.played[key] = max(r.played[key]-1, 0)
	}
	play = plays[min(r.played[key], len(plays)-1)]
	r.played[key]++
	r.turns = append(r.turns, Call{
		Session: key, Label: t.Run.Label, Turn: t.N, Inputs: t.Inputs, Retry: t.Retry, Started: time.Now(),
	})
	return play, len(r.turns) - 1
}

// Calls returns what the Runner was called with so far, in order of the beginnings.
func (r *Runner) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.turns...)
}
