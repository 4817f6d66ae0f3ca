package natsstore

import (
	"context"
	"time"
)

// A mirror is what this process has seen of some subjects of a stream. It asks the leader for what
// is new each time, so that what it has is not older than the call. Its methods may be called
// concurrently, but for what apply and reset change: the caller of refresh has that until it calls
// the function that refresh returns.
type mirror struct {
	stream
	filter string
	apply  func(m message)
	reset  func() // forgets all that was applied

	turn chan struct{} // has an element while no goroutine uses the fields below
	last uint64        // the sequence up to which all was seen
	at   time.Time     // when it was last up to date
}

// mirrorAge is after which time without a look a mirror begins anew: marks that something was
// removed may have come and gone.
const mirrorAge = markTTL / 4

func newMirror(s stream, filter string, apply func(message), reset func()) *mirror {
	m := &mirror{
		stream: s, filter: filter, apply: apply, reset: reset, turn: make(chan struct{}, 1),
	}
	m.turn <- struct{}{}
	return m
}

// refresh brings the mirror up to date. r is what the clock of the stream said before. Unless there
// is an error, the caller has what was applied until it calls done.
func (m *mirror) refresh(ctx context.Context, r reading) (done func(), err error) {
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { m.turn <- struct{}{} }
	now := time.Now()
	if now.Sub(m.at) > mirrorAge {
		m.reset()
		m.last = 0
	}
	for n := 1; ; n++ {
		found, ok, err := m.next(ctx, m.filter, m.last+1)
		if err != nil {
			done()
			return nil, err
		}
		if !ok {
			break
		}
		m.take(found)
		if n%many == 0 {
			m.bulk(ctx, m.filter, m.last+1, func(found message) bool {
				m.take(found)
				return true
			})
		}
	}
	m.last, m.at = max(m.last, r.last), now
	return done, nil
}

// many is after how many questions for one message each it is worth to ask for all at once.
const many = 32

func (m *mirror) take(found message) {
	m.apply(found)
	m.last = found.seq
}
