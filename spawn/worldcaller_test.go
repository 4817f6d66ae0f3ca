package spawn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// validModel is a function of the caller that a decision asks. It may do anything, too.
func (w *world) validModel(l *life, model string) bool {
	switch model {
	case "a/0":
		panic("broken")
	case "a/1":
		runtime.Goexit()
	case "a/2":
		_, err := l.sup.Runs(context.Background(), topKey, topKey, true)
		w.known(err)
	case "a/3":
		w.pause(100 * time.Millisecond)
	case "a/4":
		return false
	}
	return true
}

// act is what a caller does. A quick one has its answer soon, also while the journal fails.
type act struct {
	name   string
	weight int
	quick  bool
	do     func(context.Context, *life, *rand.Rand)
}

// commands returns the acts of callers.
func (w *world) commands() (list []spawntest.Command) {
	for _, a := range slices.Concat(w.acts(), w.sessionActs()) {
		list = append(list, spawntest.Command{
			Name: a.name, Weight: a.weight, Span: 1 << 20,
			Do: func(ctx context.Context, p *spawntest.Process, n int) {
				w.mu.Lock()
				l := w.lives[p.Life]
				w.mu.Unlock()
				w.tally.add("act %s", a.name)
				began := time.Now()
				a.do(ctx, l, numbers(n))
				// It may meet two stalls of one and a half seconds, and a spawn a hook that hangs.
				most := 4 * time.Second
				if a.name == "spawn" && w.h.Seed()%2 == 0 {
					most += spawn.HookTimeout
				}
				if took := time.Since(began); a.quick && took > most {
					w.fail("%s: an answer took %v", a.name, took)
				}
			},
		})
	}
	return list
}

// acts returns what callers do with runs.
func (w *world) acts() []act {
	return []act{
		{"spawn", 6, true, func(ctx context.Context, l *life, r *rand.Rand) {
			_, _ = w.spawnFrom(topKey, strconv.Itoa(r.IntN(6)), r.IntN(4) == 0,
				func(q spawn.Request) (spawn.RunInfo, error) {
					return l.sup.Spawn(ctx, topKey, topKey, q)
				})
		}},
		{"hello", 4, true, func(ctx context.Context, l *life, r *rand.Rand) {
			id := strconv.Itoa(r.IntN(20))
			w.known(errorOf(l.sup.Post(ctx, topKey, topKey, helloOf(id))))
		}},
		{"more", 2, true, w.more},
		{"steer", 4, true, func(ctx context.Context, l *life, r *rand.Rand) {
			this := spawn.Incoming{Text: "this way"}
			w.known(l.sup.Steer(ctx, topKey, topKey, refOf(w.any(r)), this))
		}},
		{"stop", 2, false, func(ctx context.Context, l *life, r *rand.Rand) {
			w.halt(ctx, l, w.any(r))
		}},
		{"cancel", 2, false, func(ctx context.Context, l *life, r *rand.Rand) {
			if r.IntN(3) == 0 {
				w.halt(ctx, l, topKey)
			}
			w.known(l.sup.CancelTurn(ctx, topKey, w.any(r)))
		}},
		{"wait", 2, false, w.wait},
		{"retry", 2, false, func(ctx context.Context, l *life, _ *rand.Rand) {
			for _, out := range w.outbox(ctx, l) {
				if out.Blocked.IsZero() {
					continue
				}
				err := l.sup.Retry(ctx, out.Key)
				if !errors.Is(err, spawntest.ErrDead) { // else nothing is read
					w.known(err)
				}
			}
		}},
		{"wish", 2, false, w.wish},
	}
}

// more sends a run, or the top-level session, a message without an ID.
func (w *world) more(ctx context.Context, l *life, r *rand.Rand) {
	more := fmt.Sprintf("more %d", w.checks.Add(1))
	to := w.any(r)
	w.mayRestart(to)
	_, err := l.sup.Post(ctx, topKey, to, spawn.Incoming{Text: more})
	w.decided(to, err)
	w.expected(err)
	if errors.Is(err, spawn.ErrNotRecorded) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused[more] = true
	}
}

// wait waits for runs, and for a reply.
func (w *world) wait(ctx context.Context, l *life, r *rand.Rand) {
	short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(60))*time.Second)
	_, err := l.sup.Wait(
		short, topKey, refsOf(w.any(r), w.any(r)),
		spawn.JoinOptions{AtLeast: r.IntN(2), Rest: spawn.Rest(r.IntN(4) % 3)},
	)
	cancel()
	w.known(err)
	w.postAndWait(ctx, l, strconv.Itoa(r.IntN(20)), time.Duration(r.IntN(60))*time.Second)
}

// wish resets the top-level session, or has it compact its conversation.
func (w *world) wish(ctx context.Context, l *life, r *rand.Rand) {
	short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(120))*time.Second)
	defer cancel()
	if r.IntN(2) == 0 {
		err := l.sup.Reset(short, topKey, topKey)
		if _, busy := errors.AsType[*spawn.ChildrenError](err); !busy {
			w.known(err)
		}
		return
	}
	err := l.sup.Compact(short, topKey, topKey)
	if !errors.Is(err, spawn.ErrNothing) && !errors.Is(err, errBroken) && !isBroken(err) {
		w.known(err)
	}
}

var errBroken = errors.New("broken")

// isBroken reports whether a Runner of the world has panicked, or ended its goroutine.
func isBroken(err error) bool {
	_, panicked := errors.AsType[*spawn.PanicError](err)
	return panicked || errors.Is(err, spawn.ErrExited)
}

// helloOf returns a message to the top-level session.
func helloOf(id string) spawn.Incoming {
	return spawn.Incoming{
		ID: id, Text: "hello " + id, From: session.Sender{ID: "ann"},
		Meta: map[string]string{"id": id},
	}
}

// postAndWait posts a message and waits for the reply, which must answer it.
func (w *world) postAndWait(ctx context.Context, l *life, id string, within time.Duration) {
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := l.sup.PostAndWait(short, topKey, topKey, helloOf(id))
	if !errors.Is(err, spawn.ErrSilent) && !errors.Is(err, spawn.ErrAnswered) {
		w.known(err)
	}
	if err == nil && !slices.Contains(reply.InReplyTo, id) {
		w.fail("%q, which answers %q, was the reply to %q", reply.Text, reply.InReplyTo, id)
	}
}

func (w *world) outbox(ctx context.Context, l *life) []spawn.Delivery {
	list, err := l.sup.Outbox(ctx, topKey)
	w.known(err)
	return list
}

// known checks that an error is one that a caller has to expect.
func (w *world) known(err error) {
	var refusal *policy.Refusal
	var still *spawn.StillRunningError
	var failed *spawn.CallbackError
	var veto *spawn.VetoError
	var taken *spawn.NameTakenError
	switch {
	case err == nil, errors.As(err, &refusal), errors.As(err, &still), errors.As(err, &failed),
		errors.As(err, &veto), errors.As(err, &taken):
	case errors.Is(err, context.DeadlineExceeded):
	default:
		for _, want := range []error{
			spawn.ErrNotFound, spawn.ErrEnded, spawn.ErrStopping, spawn.ErrStale,
			spawn.ErrUnconfirmed, spawn.ErrNotRecorded, spawn.ErrUnreadable,
			spawn.ErrBudget, spawn.ErrShutdown, spawn.ErrAnnouncing,
			spawn.ErrStopped, spawn.ErrTimedOut, spawn.ErrTurnCancelled,
		} {
			if errors.Is(err, want) {
				return
			}
		}
		w.fail("unexpected error %T: %v", err, err)
	}
}

// spawning is asked for spawns, and may do anything.
func (w *world) spawning(ctx context.Context, run spawn.SpawningRun) error {
	if run.Run.Status != spawn.StatusQueued || run.Run.Root != topKey {
		w.fail("a hook is asked for %+v", run.Run)
	}
	switch w.roll(24, "spawning", run.Run.Parent, run.Run.Task) {
	case 0:
		return errBroken
	case 1:
		panic("broken")
	case 2:
		runtime.Goexit()
	case 3:
		<-ctx.Done()
		return context.Cause(ctx)
	case 4: // far beyond its time
		w.pause(2 * spawn.HookTimeout)
	}
	return nil
}

// any returns a run that a caller was told of, or the top-level session.
func (w *world) any(r *rand.Rand) session.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		return topKey
	}
	return w.keys[r.IntN(len(w.keys))]
}

// spawnFrom spawns a child. It checks that what was acknowledged is durable, and that the same key
// gives the same run.
func (w *world) spawnFrom(
	from session.Key, key string, timeout bool, do func(spawn.Request) (spawn.RunInfo, error),
) (session.Key, error) {
	q := spawn.Request{Task: "work " + key, Key: key, Announce: w.roll(8, from, key) > 0}
	if timeout {
		q.Policy.Timeout = 20 * time.Second
	}
	if w.roll(3, from, key, "model") == 0 {
		q.Policy.Model = "a/" + strconv.Itoa(w.roll(8, from, key))
	}
	if w.roll(4, from, key, "tools") == 0 {
		q.Policy.Tools = []string{"read", "sessions_spawn"} // and nothing else below it either
	}
	q.Extra = json.RawMessage(strconv.FormatInt(w.checks.Add(1), 10)) // of a fork: where it is
	q.Policy.Fork = w.roll(2, from, key, "fork") == 0
	if w.roll(2, from, key, "step") == 0 {
		q.Policy.Announce = policy.AnnounceTurn
	}
	q.Again = w.roll(4, from, key, "again") == 0
	q.Delete = w.roll(6, from, key, "delete") == 0
	if w.roll(4, from, key, "thread") == 0 {
		q.Thread, q.Bind = true, roomOf(w.roll(3, from, key, "room"))
		q.Session = w.roll(2, from, key, "session") == 0
	}
	if w.roll(3, from, key, "named") == 0 {
		q.Name = "n" + strconv.Itoa(w.roll(2, from, key, "name"))
	}
	name, request := from.String()+" "+key, 1
	if timeout {
		request = 2
	}
	w.mu.Lock()
	w.asked[name] |= request
	w.mu.Unlock()
	info, err := do(q)
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, spawn.ErrKeyConflict) && w.asked[name] == 3 {
		return session.Key{}, err
	}
	w.expected(err)
	if err != nil {
		return session.Key{}, err
	}
	if !w.durable[fmt.Sprintf("%s %v", info.Key, tree.Admitted)] {
		w.fail("%s was acknowledged and is not durable", info.Key)
	}
	if old, ok := w.byKey[name]; ok && old != info.Key && !w.years.Load() && !q.Again {
		w.fail("spawn key %q of %s gave %s and then %s", key, from, old, info.Key)
	}
	w.byKey[name] = info.Key
	w.keys = append(w.keys, info.Key)
	return info.Key, nil
}

// halt stops a session and checks that nothing of it is alive afterwards.
func (w *world) halt(ctx context.Context, l *life, key session.Key) {
	w.end(ctx, l, key, "Stop", func() error { return l.sup.Stop(ctx, topKey, key, "enough") })
}

// end has stop end a session and checks that nothing of it is alive afterwards.
func (w *world) end(ctx context.Context, l *life, key session.Key, what string, stop func() error) {
	began := time.Now()
	w.mu.Lock()
	restarts, open := w.restarts[key], w.posting[key] > 0
	w.mu.Unlock()
	err := stop()
	w.expected(err)
	if l.IsDead() { // what becomes of the tree cannot be known
		return
	}
	if what == "Stop" && errors.Is(err, context.DeadlineExceeded) {
		w.fail("Stop(%s) did not return within %v", key, time.Since(began))
	}
	if err != nil || key == topKey {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if open || w.restarts[key] > restarts {
		return // another run may have begun
	}
	w.halted[activeKey{l.sup, key}] = true
	if by, again := w.stopped[key]; !again || l.Life < by {
		w.stopped[key] = l.Life
	}
	for k, n := range w.active {
		if what == "Stop" && k.sup == l.sup && n > 0 && w.below(k.key, key) {
			w.fail("%s(%s) returned nil while a turn of %s was under way", what, key, k.key)
		}
	}
}

// mayRestart notes that a message is sent to a session, which begins another run if it has ended.
func (w *world) mayRestart(key session.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts[key]++
	w.posting[key]++
	delete(w.stopped, key)
	for k := range w.halted {
		if k.key == key {
			delete(w.halted, k)
		}
	}
}

// decided notes that no message of a call is decided any more, unless err leaves that open.
func (w *world) decided(key session.Key, err error) {
	var refusal *policy.Refusal
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil || errors.As(err, &refusal) || errors.Is(err, spawn.ErrEnded) ||
		errors.Is(err, session.ErrArchived) || errors.Is(err, spawn.ErrNotBound) {
		w.posting[key]--
	}
}

func (w *world) below(k, ancestor session.Key) bool {
	for ; !k.IsZero(); k = w.parents[k] {
		if k == ancestor {
			return true
		}
	}
	return false
}
