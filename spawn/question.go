package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A CallbackError says that a function of the [Config] that a spawn asked has panicked, or has
// ended its goroutine. The spawn is refused, and nothing else has happened. The text of the error
// may reach a model, so it does not say what the function panicked with; Err is for the program.
type CallbackError struct {
	Callback string // the field of the function, such as "ValidModel"
	Err      error  // a *[PanicError], or why there is no answer
}

func (e *CallbackError) Error() string {
	how := "failed"
	if errors.Is(e.Err, context.DeadlineExceeded) {
		how = "did not answer in time"
	}
	return fmt.Sprintf("spawn: Config.%s %s, so that the spawn is refused", e.Callback, how)
}

// Unwrap returns Err.
func (e *CallbackError) Unwrap() error { return e.Err }

// askedFunctions are the functions of the Config that have not answered.
type askedFunctions struct {
	mu    sync.Mutex
	calls map[*AskedFunction]struct{}
}

// begin notes a call. The caller calls returned when the function has returned.
func (a *askedFunctions) begin(f AskedFunction) (returned func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = make(map[*AskedFunction]struct{})
	}
	a.calls[&f] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.calls, &f)
	}
}

// list returns the functions that have not answered, each of a session once, in order.
func (a *askedFunctions) list() []AskedFunction {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []AskedFunction
	for f := range a.calls {
		list = append(list, *f)
	}
	slices.SortFunc(list, AskedFunction.compare)
	return slices.Compact(list)
}

// maxSpawningAsks is how often Config.Spawning is asked about one spawn: again for as long as the
// rules change meanwhile.
const maxSpawningAsks = 8

var errRulesChange = errors.New("spawn: the rules have changed each time while it was asked")

var errCallbackExited = errors.New("spawn: the function ended its goroutine")

// submitSpawn has the owner decide a spawn, and again with the answers of the functions of the
// Config for as long as the decision asks for more of them.
func (sh *treeShell) submitSpawn(ctx context.Context, call *spawnCall, by *TurnInput) error {
	for asks := 0; ; {
		var err error
		if by != nil {
			err = by.doUntilOver(ctx, &call.cmd, call.reader)
		} else {
			err = sh.owner.Do(ctx, &call.cmd, call.reader)
		}
		if err == nil {
			return nil
		}
		if asked, ok := errors.AsType[*tree.QuestionsError](err); ok && asked.Spec != nil {
			run := SpawningRun{
				Run:     outcomeOf(sh.owner.Root(), asked.Spec, &tree.Past{State: tree.Queued}),
				ByModel: call.cmd.Request.ByModel, Thread: call.cmd.Thread,
			}
			if asks++; asks > maxSpawningAsks {
				return &CallbackError{Callback: "Spawning", Err: errRulesChange}
			}
			if err := sh.sup.askSpawning(ctx, call.cmd.Parent, run); err != nil {
				return unrecorded(ctx, err)
			}
			call.cmd.Asked, call.cmd.AskedOf = true, asked.Rules
			continue
		}
		if err = sh.sup.answerAll(ctx, call.cmd.Parent, err, &call.cmd.Answers); err != nil {
			return err
		}
	}
}

// answerAll adds what the functions of the Config say to the answers of a command of a session that
// asked for them with the error err, and returns nil: the command is to be decided again. It
// returns any other error as it is. A command leaves a function when the hard phase of a shutdown
// begins. A turn that asks does not: its own ctx says then why it ends.
func (s *Supervisor) answerAll(
	ctx context.Context, of session.Key, err error, answers *tree.Answers,
) error {
	asked, ok := errors.AsType[*tree.QuestionsError](err)
	if !ok {
		return err
	}
	more := maps.Clone(*answers)
	if more == nil {
		more = make(tree.Answers)
	}
	within, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	unlink := context.AfterFunc(s.workCtx, func() { //nolint:contextcheck // within ends with both
		leave(owner.ErrShutdown)
	})
	defer unlink()
	for _, q := range asked.Questions {
		if more[q], err = s.answer(within, of, q); err != nil {
			return unrecorded(ctx, err)
		}
	}
	*answers = more
	return nil
}

// authority returns what is left to a session under rules, whose Sandbox.Decide is asked. It
// returns nothing but a sandbox, beside an error, if that function fails: then nothing is left to
// the session.
func (s *Supervisor) authority(
	ctx context.Context, asked *policy.Rules, root session.Key, below []policy.Descendant,
) (a policy.Authority, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			a, err = policy.Authority{Sandboxed: true}, owner.NewPanic(failed)
		}
	}()
	rules, top := s.asking(ctx, asked, root)
	return rules.Effective(top, below...), nil
}

// asking returns rules whose Sandbox.Decide is asked on behalf of a tree, and panics where it
// fails, and what is left to the top-level session under them.
func (s *Supervisor) asking(
	ctx context.Context, asked *policy.Rules, root session.Key,
) (rules policy.Rules, top policy.Authority) {
	rules = *asked
	if rules.Sandbox.Decide != nil {
		rules.Sandbox.Decide = func(agent string, key session.Key) bool {
			yes, err := s.answer(ctx, root, tree.Question{Agent: agent, Key: key, Rules: asked})
			if err != nil {
				panic(err)
			}
			return yes
		}
	}
	return rules, rules.TopAuthority(root, rules.SessionModel(root, s.cfg.Model), s.cfg.Tools)
}

// RemovedAbove says which of the rules keeps a tool from the session on account of a session above
// it, see [policy.Rules.ExplainAbove]. ok is false if none does, or a Sandbox.Decide fails.
func (t *TurnInput) RemovedAbove(
	ctx context.Context, rules *policy.Rules, tool string,
) (v policy.ToolVerdict, ok bool) {
	defer func() {
		if failed := recover(); failed != nil {
			v, ok = policy.ToolVerdict{}, false
		}
	}()
	root := t.Session.Root
	now, top := t.shell.sup.asking(ctx, rules, root)
	return now.ExplainAbove(root, top, t.lineage, tool)
}

// answer asks the function of the Config that a question is for. The function has a goroutine of
// its own, so that it may end it, and so that a caller whose ctx ends may leave. It is asked on
// behalf of a session.
func (s *Supervisor) answer(
	ctx context.Context, of session.Key, q tree.Question,
) (bool, error) {
	type answer struct {
		yes bool
		err error
	}
	name, ask := "ValidModel", func() bool { return s.cfg.ValidModel(q.Model) }
	if q.Model == "" {
		name = "Rules.Sandbox.Decide"
		ask = func() bool { return q.Rules.Sandbox.Decide(q.Agent, q.Key) }
	}
	answers := make(chan answer, 1)
	started := s.workers.start(taskFunc(func() {
		a := answer{err: errCallbackExited} // unless the function returns
		returned := s.asked.begin(AskedFunction{name, of})
		defer func() {
			returned()
			if p := recover(); p != nil {
				a.err = owner.NewPanic(p)
			}
			answers <- a
		}()
		a.yes, a.err = ask(), nil
	}))
	if !started {
		return false, owner.ErrShutdown
	}
	select {
	case a := <-answers:
		if a.err == nil {
			return a.yes, nil
		}
		s.log.Error("offshoot: a function of the Config failed", "function", name,
			"error", a.err.Error())
		return false, &CallbackError{Callback: name, Err: a.err}
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-s.closed:
		return false, owner.ErrShutdown
	}
}
