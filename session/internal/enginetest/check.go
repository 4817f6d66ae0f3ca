package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// must fails the test now if err is not nil.
func must(t testing.TB, doing string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// check fails the test, which goes on, unless ok is true.
func check(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// wait waits until ready returns true, and fails the test now if that takes longer than patience.
func wait(t testing.TB, what string, ready func() bool, state ...any) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v: %+v", what, patience, state)
		}
	}
}

// pause lets real time pass.
func pause(d time.Duration) { <-time.After(d) }

// Claim claims a tree, again for as long as the server does not answer in time: a busy one may need
// more than a third of a lease.
func (e Engine) Claim(
	ctx context.Context, store *session.Store, root session.Key,
) (session.Claim, error) {
	for {
		c, err := store.Owners.Claim(ctx, root)
		if !errors.Is(err, e.Timeout) {
			return c, err //nolint:wrapcheck // as if the test had called it
		}
	}
}

// EndOf returns the sequence at which a log ends.
func EndOf(ctx context.Context, store *session.Store, root session.Key) (last session.Seq) {
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err == nil {
			last = e.Seq
		}
	}
	return last
}
