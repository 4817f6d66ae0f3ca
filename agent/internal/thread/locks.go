package thread

import (
	"context"
	"sync"
)

// Locks has a lock for each of some things, such as conversations. The zero Locks is ready for use.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]*lock
}

// A lock is that of one thing. It is there while at least one goroutine holds it or waits.
type lock struct {
	token chan struct{}
	users int
}

// Lock waits for the lock of one of them, and returns the function that gives it back. The error
// is the cause of ctx. A ctx that is done does not get a lock, free or not.
func (l *Locks[K]) Lock(ctx context.Context, of K) (unlock func(), err error) {
	l.mu.Lock()
	k := l.held[of]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		k.token <- struct{}{}
		if l.held == nil {
			l.held = make(map[K]*lock)
		}
		l.held[of] = k
	}
	k.users++
	l.mu.Unlock()
	unlock = func() {
		k.token <- struct{}{}
		l.leave(of, k)
	}
	select {
	case <-k.token:
		if ctx.Err() == nil {
			return unlock, nil
		}
		unlock()
	case <-ctx.Done():
		l.leave(of, k)
	}
	return nil, context.Cause(ctx)
}

// leave forgets a lock that has no users any more.
func (l *Locks[K]) leave(of K, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, of)
	}
}
