package announcetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Recorder is a receiver that takes every delivery and remembers it. The zero Recorder is ready
// for use, and all methods may be called concurrently. A Recorder must not be copied.
//
//	var got announcetest.Recorder
//	cfg := agent.Config{Deliver: got.Deliver, Reply: got.Deliver}
//
// It does not know keys, so that a repeat is remembered as one more delivery. To see a receiver
// that acts once, put a [github.com/offshoot-sdk/offshoot/announce.Dedupe] before it.
type Recorder struct {
	mu   sync.Mutex
	got  []spawn.Delivery
	wait chan struct{} // closed when the next delivery arrives; nil: no call waits
}

// A Destination is where deliveries go. Those of one destination arrive in order. It is a session
// for completions, a route for replies, and the zero Destination for the ends of runs of a tree.
type Destination struct {
	To    session.Key   // the requester; of replies the conversation, if they have no route
	Reply bool          // replies, not completions
	Route session.Route // of replies
}

// DestinationOf returns where a delivery goes.
func DestinationOf(d spawn.Delivery) Destination {
	switch {
	case d.Reply != nil && d.Reply.Route.IsZero():
		return Destination{To: d.To, Reply: true}
	case d.Reply != nil:
		return Destination{Reply: true, Route: d.Reply.Route}
	case d.Ended != nil:
		return Destination{}
	}
	return Destination{To: d.To}
}

// Deliver remembers a delivery and returns nil. It is for Config.Deliver, Config.Reply and hooks
// for the ends of runs. Those in [spawn.Delivery].More are remembered behind it, each on its own;
// the first keeps its More, which tells what came in one call.
func (r *Recorder) Deliver(_ context.Context, d spawn.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(append(r.got, d), d.More...)
	if r.wait != nil {
		close(r.wait)
		r.wait = nil
	}
	return nil
}

// Len returns how many deliveries have arrived, repeats included.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// All returns what has arrived, in the order of arrival.
func (r *Recorder) All() []spawn.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// At returns what has arrived at one destination, in the order of arrival.
func (r *Recorder) At(to Destination) []spawn.Delivery {
	return slices.DeleteFunc(r.All(), func(d spawn.Delivery) bool { return DestinationOf(d) != to })
}

// To returns the completions and replies that concern one session, in the order of arrival.
func (r *Recorder) To(key session.Key) []spawn.Delivery {
	return slices.DeleteFunc(r.All(), func(d spawn.Delivery) bool { return d.To != key })
}

// Destinations returns where deliveries have gone, each once, in the order of the first arrivals.
func (r *Recorder) Destinations() (list []Destination) {
	seen := make(map[Destination]bool)
	for _, d := range r.All() {
		if to := DestinationOf(d); !seen[to] {
			seen[to] = true
			list = append(list, to)
		}
	}
	return list
}

// Count returns how often a delivery with a key has arrived.
func (r *Recorder) Count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.got {
		if r.got[i].Key == key {
			n++
		}
	}
	return n
}

// Repeated returns the keys that have arrived more than once, in the order of their repeats.
func (r *Recorder) Repeated() (keys []string) {
	count := make(map[string]int)
	for _, d := range r.All() {
		if count[d.Key]++; count[d.Key] == 2 {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// Wait returns what has arrived as soon as that are n deliveries or more. If ctx ends before, it
// returns what has arrived until then and an error. In a bubble of testing/synctest the wait costs
// no time of the machine.
func (r *Recorder) Wait(ctx context.Context, n int) ([]spawn.Delivery, error) {
	for {
		r.mu.Lock()
		got := slices.Clone(r.got)
		if r.wait == nil {
			r.wait = make(chan struct{})
		}
		arrived := r.wait
		r.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return got, fmt.Errorf("announcetest: %d of %d deliveries have arrived: %w",
				len(got), n, context.Cause(ctx))
		}
	}
}

// Reset forgets what has arrived.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = nil
}
