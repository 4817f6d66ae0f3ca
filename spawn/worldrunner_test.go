package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// run is the Runner. It may do anything.
func (w *world) run(l *life, ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	key, me := t.Session.Key, activeKey{l.sup, t.Session.Key}
	w.mu.Lock()
	w.parents[key] = t.Session.Parent
	if !w.durable[fmt.Sprintf("turn %d of %s", t.N, key)] {
		w.fail("turn %d of %s started before it was durable", t.N, key)
	}
	if t.Session.Depth > 0 && string(t.Extra) != w.extras[key] {
		w.fail("turn %d of %s has %q, it was spawned with %q", t.N, key, t.Extra, w.extras[key])
	}
	if w.active[me]++; w.active[me] > 1 {
		w.fail("two turns of %s at once", key)
	}
	for k := key; !k.IsZero(); k = w.parents[k] {
		// A former life that has not noticed yet may start what it decided on.
		if by, stopped := w.stopped[k]; stopped && l.Life >= by {
			w.fail("turn %d of %s started after Stop(%s) had returned nil", t.N, key, k)
		}
	}
	w.mu.Unlock()
	w.slot(ctx, l, t, true)
	defer func() {
		w.slot(ctx, l, t, false)
		w.mu.Lock()
		w.active[me]--
		w.mu.Unlock()
	}()
	returned := ""
	out := spawn.TurnResult{
		Result: spawn.Result{Text: fmt.Sprintf(" answer %d of %s in life %d\xff\n", t.N, key, l.Life)},
		Reply:  "reply",
		Pos:    t.Pos + 1, Compacted: w.roll(3, "compacted", key, t.N),
	}
	if t.Compact && len(t.Inputs) > 0 {
		w.fail("turn %d of %s compacts and reads", t.N, key)
	}
	if t.Announces && (len(t.Inputs) > 0 || t.Deadline.IsZero() || t.ForPeople || t.Active > 0) {
		w.fail("turn %d of %s announces and has something to do", t.N, key)
	}
	defer func() { // a Runner that panics or ends its goroutine has returned nothing
		w.mu.Lock()
		defer w.mu.Unlock()
		if t.Compact { // which says nothing
			returned = ""
		}
		w.returned[fmt.Sprintf("turn %d of %s", t.N, key)] = returned
	}()
	if err := w.work(l, ctx, t, &out); err != nil {
		returned = out.Result.Text
		return out, err
	}
	returned = out.Result.Text
	return out, nil
}

// slot notes whether a turn of a sub-agent holds a slot, and checks how many do. A turn that was
// cancelled may have given its slot back.
func (w *world) slot(ctx context.Context, l *life, t *spawn.TurnInput, holds bool) {
	if t.Session.Depth == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !holds {
		delete(w.holders, t)
		return
	}
	w.holders[t] = slotHolder{ctx, l}
	n := 0
	for _, h := range w.holders {
		if h.l == l && h.ctx.Err() == nil {
			n++
		}
	}
	if n > w.limit {
		w.fail("%d turns of sub-agents at once, the lane has %d slots", n, w.limit)
	}
}

type slotHolder struct {
	ctx context.Context
	l   *life
}

func (w *world) work(
	l *life, ctx context.Context, t *spawn.TurnInput, out *spawn.TurnResult,
) error {
	key := t.Session.Key
	roll := func(n int, what string) int { return w.roll(n, what, key, t.N) }
	if t.ForPeople && len(t.Inputs) > 0 {
		for n := range roll(3, "say") {
			text := fmt.Sprintf("said %d over the inputs of %s, run %s, from %d on", n, key, t.Run.ID,
				t.First)
			w.known(t.Say(ctx, spawn.Saying{Text: text}))
		}
	}
	pause := func() { w.pause(time.Duration(roll(3000, "pause")) * time.Millisecond) }
	pause()
	if roll(3, "spend") == 0 {
		if err := t.Spend(ctx, session.Usage{Input: int64(roll(400, "in"))}); err != nil {
			w.known(err)
			return err
		}
		out.Result.Usage = t.Spent()
	}
	if roll(4, "take") == 0 {
		_, err := t.Take(ctx)
		w.known(err)
	}
	if roll(3, "straggler") == 0 {
		go w.straggle(context.WithoutCancel(ctx), l, t)
	}
	if t.Announces {
		if _, err := t.Spawn(ctx, spawn.Request{Task: "more"}); err == nil {
			w.fail("turn %d of %s announces and has spawned", t.N, key)
		}
	} else if t.Session.Role != session.RoleLeaf && t.N <= 2 && roll(5, "spawns") < 3 {
		if err := w.delegate(l, ctx, t); err != nil {
			return err
		}
	}
	switch roll(16, "what") {
	case 0:
		return errBroken
	case 1:
		panic("broken")
	case 2:
		runtime.Goexit()
	case 3:
		<-ctx.Done()
		if roll(2, "untouched") == 0 {
			return spawn.ErrUntouched
		}
		return context.Cause(ctx)
	case 4:
		select {
		case <-ctx.Done():
			// Beyond the grace period or not.
			w.pause(time.Duration(roll(20, "linger")) * time.Second)
		case <-time.After(40 * time.Second):
		}
	case 5:
		select { // the Runner ignores its context
		case <-w.stop:
		case <-time.After(10 * time.Minute):
		}
	case 6:
		out.Silent = true
	case 7:
		out.Result.Text, out.Fallback = "", "fallback"
	case 10:
		if t.Announces { // it has a minute
			w.pause(time.Duration(30+roll(60, "announces")) * time.Second)
		}
	case 8, 9:
		out.Refused = "not what was asked for"
	}
	pause()
	return nil
}

// straggle uses a turn from a goroutine that does not heed its end (R5). What comes after the end
// is refused.
func (w *world) straggle(ctx context.Context, l *life, t *spawn.TurnInput) {
	key := t.Session.Key
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	for i := range 6 {
		w.pause(time.Duration(w.roll(9000, "straggler", key, t.N, i)) * time.Millisecond)
		over, ended := t.Over() != nil, t.Err() != nil
		w.mu.Lock()
		gone := false // Stop has returned nil
		for k := key; !k.IsZero(); k = w.parents[k] {
			gone = gone || w.halted[activeKey{l.sup, k}]
		}
		w.mu.Unlock()
		var err error
		begins := true
		switch w.roll(7, "late", key, t.N, i) {
		case 0:
			_, err = w.spawnFrom(key, fmt.Sprintf("late %d.%d", t.First, i), false,
				func(q spawn.Request) (spawn.RunInfo, error) { return t.Spawn(ctx, q) })
		case 1:
			_, err = t.Take(ctx)
		case 2:
			_, err = t.Runs(ctx)
		case 3:
			if ended { // else the turn would give its slot back while the Runner works
				_, err = t.Wait(ctx, nil, spawn.JoinOptions{})
			}
		case 4:
			err = t.Steer(ctx, refOf(w.any(w.straggler(t, i))), spawn.Incoming{Text: "late"})
		case 5:
			begins, err = false, t.Spend(ctx, session.Usage{Input: 1})
		case 6:
			t.Yield(spawn.JoinOptions{})
			err = t.Err()
		}
		w.known(err)
		if (over || gone || ended && begins) && !errors.Is(err, spawn.ErrStale) {
			w.fail("turn %d of %s is over and still acts: %v", t.N, key, err)
		}
	}
}

// straggler returns the random numbers of one act of a straggler.
func (w *world) straggler(t *spawn.TurnInput, i int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(w.roll(1<<30, "target", t.Session.Key, t.N, i)), 3))
}

// delegate spawns children and waits for them in one way or another, or does not.
func (w *world) delegate(l *life, ctx context.Context, t *spawn.TurnInput) error {
	key := t.Session.Key
	var children []spawn.RunRef
	for i := range 1 + w.roll(3, key, t.N, "children") {
		child, err := w.spawnFrom(
			key,
			fmt.Sprintf("%d.%d", t.First, i%2),
			w.roll(5, key, i, "timeout") == 0,
			func(q spawn.Request) (spawn.RunInfo, error) {
				return t.Spawn(ctx, q)
			},
		)
		if err == nil {
			children = append(children, refOf(child))
		}
	}
	if older := w.any(w.straggler(t, 9)); older != key && w.roll(3, key, t.N, "send") == 0 {
		w.send(ctx, t, older, w.roll(4, key, t.N, "send how"))
	}
	opt := spawn.JoinOptions{AtLeast: w.roll(3, key, t.N, "need")}
	if w.roll(3, key, t.N, "deadline") == 0 {
		opt.Within = 15 * time.Second
	}
	switch how := w.roll(5, key, t.N, "wait"); how {
	case 0:
		t.Yield(opt)
	case 1:
		t.Yield(opt, children...)
	case 2, 3:
		short := ctx
		if how == 3 {
			var cancel context.CancelFunc
			short, cancel = context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
		}
		w.slot(ctx, l, t, false)
		_, err := t.Wait(short, children, opt)
		w.slot(ctx, l, t, true)
		w.known(err)
	}
	return nil
}
