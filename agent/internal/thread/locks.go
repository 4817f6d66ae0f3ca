package thread

import (
	"context"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
)

// Locks has a lock for each conversation. The zero Locks is ready for use.
type Locks struct {
	mu   sync.Mutex
	held map[session.Route]*lock
}

// A lock is that of one conversation. It is there while at least one goroutine holds it or waits.
type lock struct {
	token chan struct{}
	users int
}

// Lock waits for the lock of a conversation, and returns the function that gives it back. The error
// is the cause of ctx.
func (l *Locks) Lock(ctx context.Context, of session.Route) (unlock func(), err error) {
	l.mu.Lock()
	k := l.held[of]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		k.token <- struct{}{}
		if l.held == nil {
			l.held = make(map[session.Route]*lock)
		}
		l.held[of] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case <-k.token:
		return func() {
			k.token <- struct{}{}
			l.leave(of, k)
		}, nil
	case <-ctx.Done():
		l.leave(of, k)
		return nil, context.Cause(ctx)
	}
}

// leave forgets a lock that has no users any more.
func (l *Locks) leave(of session.Route, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, of)
	}
}
