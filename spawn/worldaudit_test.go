package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// deliver is the receiver of what leaves the tree.
func (w *world) deliver(ctx context.Context, l *life, out spawn.Delivery) error {
	w.mu.Lock()
	to := callKey{l, destinationOf(out)}
	if w.calling[to] {
		w.fail("%s is handed over while another call for its destination is under way", out.Key)
	}
	w.calling[to] = true
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calling[to] = false
	}()
	for _, d := range out.All() {
		w.checkDelivery(d)
	}
	if len(out.More) > 0 {
		w.tally.add("collected")
	}
	w.calls++
	roll := w.roll(26, out.Key, w.calls)
	if roll > 9 {
		w.take(out.All()...)
	}
	w.mu.Unlock()
	switch roll {
	case 0:
		return errors.New("down")
	case 1:
		return spawn.ErrBusy
	case 2:
		panic("down")
	case 3:
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return errors.New("slow")
	case 4:
		w.pause(time.Second)
		w.mu.Lock()
		w.take(out.All()...)
		w.mu.Unlock()
		return errors.New("the acknowledgement was lost")
	case 5:
		runtime.Goexit()
	case 6: // far beyond its time
		w.pause(10 * time.Minute)
		return errors.New("very slow")
	case 7:
		w.pause(50 * time.Minute)
		w.mu.Lock()
		w.take(out.All()...)
		w.mu.Unlock()
	case 8:
		return spawn.Permanent(errors.New("gone"))
	case 9:
		return spawn.RetryAfter(40*time.Minute, errSlowDown)
	}
	return nil
}

var errSlowDown = errors.New("slow down")

// isPutOff reports whether the receiver has asked for a pause before the next attempt.
func isPutOff(out spawn.Delivery) bool {
	return out.Blocked.IsZero() && strings.Contains(out.Error, errSlowDown.Error())
}

// checkDelivery checks what a call hands over.
func (w *world) checkDelivery(out spawn.Delivery) {
	if c := out.Completion; c != nil {
		if !w.durable[fmt.Sprintf("%s %v", c.Run.Key, tree.RunEnded)] {
			w.fail("the end of %s was delivered before it was durable", c.Run.Key)
		}
		if !c.Run.Status.Terminal() {
			w.fail("%s was delivered while it was %v", c.Run.Key, c.Run.Status)
		}
	}
	if x := out.Ended; x != nil && (!x.Run.Status.Terminal() ||
		!w.durable[fmt.Sprintf("%s %v", x.Run.Key, tree.RunEnded)]) {
		w.fail("a hook is told of %s, which is %v", x.Run.Key, x.Run.Status)
	}
	// A repeat is marked as one, or comes from an owner that has been replaced.
	if w.accepted[out.Key] > 0 && !out.MayRepeat && out.Epoch >= w.epoch {
		w.fail("%s was delivered twice without a warning", out.Key)
	}
	w.checkOrder(out)
	w.epoch = max(w.epoch, out.Epoch)
}

// attemptsOf names what waits and at which attempt it is.
func attemptsOf(outbox []spawn.Delivery) string {
	var b strings.Builder
	for _, out := range outbox {
		fmt.Fprintf(&b, "%s %d, ", out.Key, out.Attempt)
	}
	return b.String()
}

// take notes that the receiver has taken deliveries. What was said under one name has one key.
func (w *world) take(list ...spawn.Delivery) {
	for _, out := range list {
		if r := out.Reply; r != nil && strings.HasPrefix(r.Text, "said ") {
			if key := w.said[r.Text]; key != "" && key != out.Key {
				w.fail("%q left twice, as %s and %s", r.Text, key, out.Key)
			}
			w.said[r.Text] = out.Key
		}
		w.accepted[out.Key]++
		to := destinationOf(out)
		w.newest[to] = max(w.newest[to], w.ordOf(out))
	}
}

// checkOrder checks an attempt: the receiver has taken no later delivery for the same destination,
// except where this one has been blocked and says so, or a former owner sends it.
func (w *world) checkOrder(out spawn.Delivery) {
	newest := w.newest[destinationOf(out)]
	if w.ordOf(out) < newest && w.accepted[out.Key] == 0 && !out.Late && out.Epoch >= w.epoch {
		w.fail("%s comes after number %d of its destination", out.Key, newest)
	}
}

// destinationOf names the destination of a delivery.
func destinationOf(out spawn.Delivery) string {
	switch {
	case out.Ended != nil:
		return "ends"
	case out.Reply == nil:
		return "completions"
	}
	return fmt.Sprint(out.Reply.Route)
}

// ordOf returns the ordinal of a delivery, which its key ends with.
func (w *world) ordOf(out spawn.Delivery) uint64 {
	_, number, _ := strings.Cut(out.Key, ".")
	ord, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		w.fail("the key %q: %v", out.Key, err)
	}
	return ord
}

// settle lets a process that has not crashed finish everything. It stops the turns that do not end
// by themselves, because they hold their slots. It looks until two looks in a row have found no
// turn: a look may be what takes the tree from a former process, and the turns that this one left
// begin then.
func (w *world) settle(l *life) {
	ctx := context.Background()
	w.pause(2 * time.Hour)
	for quiet := 0; quiet < 2; w.pause(time.Hour) {
		quiet++
		for _, r := range w.runs(l) {
			if r.Status == spawn.StatusRunning {
				quiet = 0
				w.halt(ctx, l, r.Key)
			}
		}
	}
	for _, r := range w.runs(l) {
		if !r.Status.Terminal() {
			w.fail("%s is %v for ever", r.Key, r.Status)
		}
	}
	if len(w.runs(l)) == 0 && w.isEmpty() {
		return
	}
	// A receiver may take an hour for each of them, and ask for pauses: it goes on while one is put
	// off or another attempt was made.
	for n, before := 0, ""; n < 48; n++ {
		outbox := w.outbox(ctx, l)
		if now := attemptsOf(outbox); now != before {
			before = now
		} else if !slices.ContainsFunc(outbox, isPutOff) {
			break
		}
		w.pause(time.Hour)
	}
	for _, out := range w.outbox(ctx, l) {
		if out.Blocked.IsZero() {
			w.fail("%s never arrives: %+v", out.Key, out)
		}
	}
	// A message stays, and its turn may hang as well: each has a turn of its own where they are of
	// several conversations.
	for n := 0; n < 3 || n < 48 && l.sup.SlotsUsed() > 0; n++ {
		w.halt(ctx, l, topKey)
		w.pause(time.Hour)
	}
	if used := l.sup.SlotsUsed(); used != 0 {
		w.fail("%d slots are never given back", used)
	}
}

func (w *world) runs(l *life) []spawn.RunInfo {
	runs, err := l.sup.Runs(context.Background(), topKey, topKey, true)
	for errors.Is(err, spawn.ErrUnreadable) { // the journal still fails now and then
		w.pause(10 * time.Second)
		runs, err = l.sup.Runs(context.Background(), topKey, topKey, true)
	}
	if err != nil && !errors.Is(err, spawn.ErrNotFound) {
		w.fail("%v", err)
	}
	return runs
}

// isEmpty reports whether nothing is on record.
func (w *world) isEmpty() bool {
	for _, err := range w.h.Entries(topKey) {
		return err != nil
	}
	return true
}

// checkResults compares what Runners returned with what is on record, byte for byte.
func (w *world) checkResults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, err := range w.h.Entries(topKey) {
		if err != nil {
			w.fail("reading the history: %v", err)
			return
		}
		f, err := tree.FactOf(e.Payload)
		if err == nil && f.Kind == tree.Posted && w.refused[string(f.Text)] {
			w.fail("%q is on record, and its caller was told that it is not", f.Text)
		}
		if err != nil || f.Kind != tree.TurnEnded || f.Answer == nil {
			continue
		}
		want := w.returned[fmt.Sprintf("turn %d of %s", f.N, f.Run)]
		if f.Flags&tree.FlagStep != 0 && f.State != tree.OK {
			want = "" // the result of the run is announced
		}
		if got := string(f.Answer.Text); got != want {
			w.fail("turn %d of %s returned %q, on record is %q", f.N, f.Run, want, got)
		}
	}
}

// audit checks what is on record against what was seen. The kit audits the rest.
func (w *world) audit() {
	w.tally.addFacts(w.h.Entries(topKey))
	w.checkResults()
	w.checkMessages()
}
