package target

import (
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// maxPairs is how many pairs a Pace keeps.
const maxPairs = 10_000

// A Pair is a session that writes to another one.
type Pair struct{ From, To session.Key }

// A Pace says whether a message may go from one session to another already. The zero Pace is ready
// for use, and safe for concurrent use.
type Pace struct {
	mu   sync.Mutex
	last map[Pair]sent // guarded by mu
}

type sent struct {
	id string
	at time.Time
}

// Pass reports whether the last message of the pair that passed is at least pause ago, and notes
// this one if so. A message with the same id, which is not empty, is that one again, and passes.
// The caller calls unsent, which is not nil, if the message has not been taken: then it does not
// count.
func (p *Pace) Pass(
	of Pair, id string, pause time.Duration, now time.Time,
) (unsent func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.last[of]
	switch {
	case known && id != "" && before.id == id:
		return func() {}, true
	case known && now.Sub(before.at) < pause && !now.Before(before.at):
		return func() {}, false
	}
	if len(p.last) >= maxPairs {
		for pair, x := range p.last {
			if now.Sub(x.at) >= pause || now.Before(x.at) {
				delete(p.last, pair)
			}
		}
	}
	if p.last == nil || len(p.last) >= maxPairs {
		p.last = map[Pair]sent{}
	}
	this := sent{id, now}
	p.last[of] = this
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.last[of] != this: // a later one has taken its place
		case known:
			p.last[of] = before
		default:
			delete(p.last, of)
		}
	}, true
}
