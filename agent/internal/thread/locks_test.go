package thread_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
)

// A lock is held by one caller, and no ctx that is done gets one: neither a free one nor one that
// becomes free at that moment.
func TestNoLockForWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks thread.Locks[string]
		why := errors.New("the turn is over")
		for range 50 {
			ctx, end := context.WithCancelCause(t.Context())
			unlock, err := locks.Lock(ctx, "a")
			require.NoError(t, err)
			other, err := locks.Lock(ctx, "b")
			require.NoError(t, err)
			other()
			waiting := make(chan error)
			go func() {
				_, err := locks.Lock(ctx, "a")
				waiting <- err
			}()
			synctest.Wait()
			end(why)
			unlock()
			require.ErrorIs(t, <-waiting, why)
			_, err = locks.Lock(ctx, "a")
			require.ErrorIs(t, err, why)
		}
		require.Zero(t, locks.Held(), "what is not held is forgotten")
	})
}
