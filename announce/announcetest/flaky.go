package announcetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Mishap is what a [FlakySink] does with one call.
type Mishap uint8

// The mishaps. The zero Mishap is that all goes well.
const (
	MishapNone    Mishap = iota // the receiver is called, and its answer returned
	MishapFail                  // ErrFlaky; the receiver is not called
	MishapHang                  // the call lasts until its ctx ends; the receiver is not called
	MishapPanic                 // the call panics; the receiver is not called
	MishapLose                  // the receiver acts, and its answer is lost: ErrAnswerLost
	MishapRepeat                // the receiver is called twice, as by a transport that repeats
	MishapReorder               // the call is accepted; the receiver is called after the next one
	MishapBusy                  // spawn.ErrBusy; the receiver is not called
)

var mishapNames = [...]string{
	MishapNone: "none", MishapFail: "fail", MishapHang: "hang", MishapPanic: "panic",
	MishapLose: "lose", MishapRepeat: "repeat", MishapReorder: "reorder", MishapBusy: "busy",
}

// String returns the word for m, such as "lose".
func (m Mishap) String() string { return enum.String(mishapNames[:], "Mishap", m) }

var (
	// ErrFlaky is what a [FlakySink] fails with.
	ErrFlaky = errors.New("announcetest: the sink has failed as planned")

	// ErrAnswerLost is what a [FlakySink] returns after the receiver has acted.
	ErrAnswerLost = errors.New("announcetest: the sink has lost the answer as planned")
)

// A FlakySink stands before a receiver as an unreliable transport does. What happens to a call
// depends on the Seed, the key of the delivery, and how many calls with that key there were: not on
// the order of calls, so that a test does the same each time. The zero FlakySink takes everything.
//
// All methods may be called concurrently. The fields are not changed after the first call, and a
// FlakySink must not be copied.
//
// A reordered delivery was accepted and has not arrived: the sender is told that all is well, as by
// a transport that has a queue. It is handed on when the next call returns, or by Flush. A
// transport that dies with its queue loses it, and the sender cannot know: so leave MishapReorder
// out where nothing may be lost, or call Flush.
type FlakySink struct {
	// Next is the receiver. Nil: all that reaches it is taken.
	Next func(ctx context.Context, d spawn.Delivery) error
	// Script is what happens to the first calls with each key, in order. What happens to later
	// calls the Chances say.
	Script []Mishap
	// Chances is how probable each mishap is, from 0 to 1. The sum is at most 1: what is left goes
	// well.
	Chances map[Mishap]float64
	// Seed is that of the random numbers.
	Seed uint64
	// Patience is after how many calls with one key the Chances end, so that it arrives. 0: never.
	Patience int

	mu    sync.Mutex
	count map[string]int // calls by key
	log   []FlakyCall
	held  []spawn.Delivery
}

// A FlakyCall says what a [FlakySink] has done with one call.
type FlakyCall struct {
	Delivery spawn.Delivery
	Call     int // the number of the call with this key, from 1
	Mishap   Mishap
}

// String says the same in a line.
func (c FlakyCall) String() string {
	return fmt.Sprintf("%s: call %d of %s: %v", c.Delivery.To, c.Call, c.Delivery.Key, c.Mishap)
}

// Deliver is for Config.Deliver, Config.Reply and hooks for the ends of runs.
func (f *FlakySink) Deliver(ctx context.Context, d spawn.Delivery) error {
	mishap, err := f.plan(d)
	if err != nil {
		return err
	}
	switch mishap {
	case MishapFail:
		return ErrFlaky
	case MishapHang:
		<-ctx.Done()
		return fmt.Errorf("announcetest: the sink has hung as planned: %w", context.Cause(ctx))
	case MishapPanic:
		panic("announcetest: the sink panics as planned")
	case MishapBusy:
		return spawn.ErrBusy
	case MishapReorder:
		f.hold(d)
		return nil
	case MishapNone, MishapLose, MishapRepeat: // the receiver is called
	}
	err = f.next(ctx, d)
	if mishap == MishapRepeat && err == nil {
		err = f.next(ctx, d)
	}
	_ = f.Flush(ctx) // what the receiver refuses stays
	if mishap == MishapLose && err == nil {
		return ErrAnswerLost
	}
	return err
}

// Flush hands on what was reordered, in the order in which it came. It returns the first error of
// the receiver; what that has refused, and what comes after it, stays for the next time.
func (f *FlakySink) Flush(ctx context.Context) error {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for i, d := range held {
		if err := f.next(ctx, d); err != nil {
			f.mu.Lock()
			f.held = slices.Concat(held[i:], f.held)
			f.mu.Unlock()
			return err
		}
	}
	return nil
}

// Log returns what was done with each call, in the order in which the calls came.
func (f *FlakySink) Log() []FlakyCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Count returns how often a mishap has happened.
func (f *FlakySink) Count(m Mishap) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for i := range f.log {
		if f.log[i].Mishap == m {
			n++
		}
	}
	return n
}

// plan decides what happens to a call, and notes it.
func (f *FlakySink) plan(d spawn.Delivery) (Mishap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = make(map[string]int)
	}
	f.count[d.Key]++
	m, err := f.choose(d.Key, f.count[d.Key])
	if err != nil {
		return MishapNone, err
	}
	f.log = append(f.log, FlakyCall{Delivery: d, Call: f.count[d.Key], Mishap: m})
	return m, nil
}

// choose decides what happens to the call n with a key.
func (f *FlakySink) choose(key string, n int) (Mishap, error) {
	if n <= len(f.Script) {
		return f.Script[n-1], f.valid(f.Script[n-1], 0)
	}
	sum := 0.0
	for m, chance := range f.Chances {
		if err := f.valid(m, chance); err != nil {
			return MishapNone, err
		}
		sum += chance
	}
	if sum > 1.000001 { // sums of decimal fractions are not exact
		return MishapNone, fmt.Errorf("announcetest: FlakySink.Chances: the sum is %v, want at most 1", sum)
	}
	if f.Patience > 0 && n > f.Patience {
		return MishapNone, nil
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", key, n)
	drawn := rand.New(rand.NewPCG(f.Seed, h.Sum64())).Float64() //nolint:gosec // a plan of a test
	for m := range Mishap(len(mishapNames)) {
		if drawn -= f.Chances[m]; drawn < 0 {
			return m, nil
		}
	}
	return MishapNone, nil
}

func (f *FlakySink) valid(m Mishap, chance float64) error {
	switch {
	case int(m) >= len(mishapNames):
		return fmt.Errorf("announcetest: FlakySink: %v is not a mishap", m)
	case !(chance >= 0 && chance <= 1):
		return fmt.Errorf("announcetest: FlakySink.Chances[%v] is %v: want 0 to 1", m, chance)
	}
	return nil
}

func (f *FlakySink) hold(d spawn.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, d)
}

func (f *FlakySink) next(ctx context.Context, d spawn.Delivery) error {
	if f.Next == nil {
		return nil
	}
	return f.Next(ctx, d)
}
