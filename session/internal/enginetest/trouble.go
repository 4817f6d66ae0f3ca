//go:build unix

package enginetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
)

// TestTrouble breaks the lanes of an engine under a process that has its lease all the while: the
// member is told, Health returns it, and both know when mend has mended them. The ticket that
// waited is granted then.
func (e Engine) TestTrouble(t *testing.T, at Place, spoil, mend func()) {
	t.Helper()
	store := e.open(t, at, "troubled", e.Lease)
	var mu sync.Mutex
	var told []string
	var granted []string
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	begun := make(chan struct{})
	var once sync.Once
	wg.Go(func() {
		err := store.Owners.Serve(ctx, session.Member{
			Lease: func(session.Lease) { once.Do(func() { close(begun) }) },
			Trouble: func(work string, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					work += ": " + err.Error()
				}
				told = append(told, work)
			},
		})
		check(t, err == nil, "Serve: %v", err)
	})
	lane := store.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) {
		mu.Lock()
		granted = append(granted, id)
		mu.Unlock()
	}})
	<-begun
	must(t, "ask", lane.Ask(session.Ticket{ID: "0"}))
	wait(t, "a ticket is granted", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(granted) == 1
	}, &told)
	lane.Free("0")
	check(t, store.Health(t.Context()) == nil, "health before: %v", store.Health(t.Context()))
	spoil()
	must(t, "ask", lane.Ask(session.Ticket{ID: "1"}))
	wait(t, "the member is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 1
	}, &told)
	check(t, strings.HasPrefix(told[0], "lanes: "), "told %q", told)
	err := store.Health(t.Context())
	check(t, err != nil && strings.Contains(err.Error(), "lane"), "health: %v", err)
	pause(e.Lease) // it is told once
	mend()
	wait(t, "the ticket is granted, and the member is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(granted) == 2 && len(told) == 2
	}, &told)
	mu.Lock()
	defer mu.Unlock()
	check(t, told[1] == "lanes", "told %q", told)
	check(t, store.Health(t.Context()) == nil, "health after: %v", store.Health(t.Context()))
}
