package spawntest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Step is one thing that a turn does: it acts through t, or changes out. A step that returns an
// error ends the turn with that error. A test may write its own Step. [Do] makes one of a function
// that does not change the result.
type Step func(ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult) error

// A Play is what one turn does, step by step. It ends with the first step that returns an error.
// The zero Play answers nothing.
type Play []Step

// Say sets the text of the turn's result.
func Say(text string) Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Result.Text = text
		return nil
	}
}

// Reply sets what a top-level session says to people.
func Reply(text string) Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Reply = text
		return nil
	}
}

// Silent marks the turn as silent: the end of the run is not announced if it ends well.
func Silent() Step {
	return func(_ context.Context, _ *spawn.TurnInput, out *spawn.TurnResult) error {
		out.Silent = true
		return nil
	}
}

// Fail ends the turn with err. What the turn said before is its partial answer.
func Fail(err error) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error { return err }
}

// Panic panics with v. The Supervisor contains it, and the turn fails.
func Panic(v any) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error { panic(v) }
}

// Delay waits for d. It ends the turn with the cause of its context if that ends first.
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

// Block waits until release is closed. It ends the turn with the cause of its context if that ends
// first. A nil release is never closed.
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

// Ignore waits until release is closed, also if the turn is cancelled meanwhile. It is a Runner
// that ignores its context.
func Ignore(release <-chan struct{}) Step {
	return func(context.Context, *spawn.TurnInput, *spawn.TurnResult) error {
		<-release
		return nil
	}
}

// Linger waits until the turn is cancelled and then for d, and ends the turn with the cause of its
// context. With a d beyond the grace period the Supervisor gives the turn up.
func Linger(d time.Duration) Step {
	return func(ctx context.Context, _ *spawn.TurnInput, _ *spawn.TurnResult) error {
		<-ctx.Done()
		<-time.After(d)
		return context.Cause(ctx)
	}
}

// Spawn spawns a child for each request, in order. A refusal ends the turn with its error.
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

// Yield has the session wait for its children after the turn, as opt says. The zero opt waits for
// all of them.
func Yield(opt spawn.JoinOptions) Step {
	return func(_ context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		t.Yield(opt)
		return nil
	}
}

// Await spawns a child for each request and waits for them within the turn, as opt says. A refusal,
// or the error of the wait, ends the turn.
func Await(opt spawn.JoinOptions, requests ...spawn.Request) Step {
	return func(ctx context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		var runs []spawn.RunRef
		for _, q := range requests {
			info, err := t.Spawn(ctx, q)
			if err != nil {
				return err
			}
			runs = append(runs, info.Ref())
		}
		_, err := t.Wait(ctx, runs, opt)
		return err
	}
}

// Spend accounts for a model call that used u. The Usage of the result becomes what the turn has
// spent so far. A budget that is exceeded ends the turn with its error.
func Spend(u session.Usage) Step {
	return func(ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult) error {
		err := t.Spend(ctx, u)
		out.Result.Usage = t.Spent()
		return err
	}
}

// Do calls f. An error of f ends the turn.
func Do(f func(ctx context.Context, t *spawn.TurnInput) error) Step {
	return func(ctx context.Context, t *spawn.TurnInput, _ *spawn.TurnResult) error {
		return f(ctx, t)
	}
}

// A Runner is a [spawn.Runner] that plays scripts and records its calls. The zero Runner answers
// every turn with "ok". It is safe for concurrent use and must not be copied.
type Runner struct {
	mu      sync.Mutex
	scripts map[string][]Play
	played  map[session.Key]int
	turns   []Call
}

// A Call is one call of a Runner, as [Runner.Calls] returns it. Outcome, Err and Ended are zero
// while the turn is under way.
type Call struct {
	Session session.Key
	Label   string
	Turn    int
	Inputs  []spawn.Input
	Retry   bool
	Outcome spawn.TurnResult
	Err     error
	Started time.Time
	Ended   time.Time
}

// On sets the plays of the sessions that name selects, and returns r. A name is the label of a run,
// else its task, else the text of the key of a session. The empty name is for all other sessions.
//
// The first turn of a session gets the first play, the second turn the second, and the last play is
// repeated. A turn that repeats one that a crash interrupted gets the same play again. Plays that
// were set for the name before are replaced.
func (r *Runner) On(name string, plays ...Play) *Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scripts == nil {
		r.scripts = make(map[string][]Play)
	}
	r.scripts[name] = plays
	return r
}

// RunTurn plays the next play of the session. It implements [spawn.Runner].
func (r *Runner) RunTurn(
	ctx context.Context, t *spawn.TurnInput,
) (out spawn.TurnResult, err error) {
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

// begin records a call and returns what it is to play, and the index of the call.
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
		Session: key,
		Label:   t.Run.Label,
		Turn:    t.N,
		Inputs:  t.Inputs,
		Retry:   t.Retry,
		Started: time.Now(),
	})
	return play, len(r.turns) - 1
}

// Calls returns a copy of the calls so far, in the order in which they began.
func (r *Runner) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.turns...)
}
