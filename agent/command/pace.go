package command

import (
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// Bounds of a pace.
const (
	minPause = 2 * time.Second // between two messages to one sub-agent
	maxPaced = 1000            // sub-agents that are kept; older ones make room
)

// A pace keeps when sub-agents were sent a message last. The zero pace is ready for use.
type pace struct {
	mu   sync.Mutex
	last map[session.Key]sending // guarded by mu
}

type sending struct {
	at time.Time
	id string // of the message; one that is repeated need not wait
}

// begin reports whether a message may be sent now.
func (p *pace) begin(to session.Key, id string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, ok := p.last[to]
	if ok && now.Sub(before.at) < minPause {
		return id != "" && id == before.id
	}
	if p.last == nil {
		p.last = make(map[session.Key]sending)
	}
	if len(p.last) >= maxPaced {
		for key, s := range p.last {
			if now.Sub(s.at) >= minPause {
				delete(p.last, key)
			}
		}
	}
	p.last[to] = sending{now, id}
	return true
}
