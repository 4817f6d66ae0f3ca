package dirstore_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A caller stops waiting for an append that is still to be written. Other appends do not get its
// buffer.
func TestAbandonedAppendKeepsItsBuffer(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			failing := true
			hang := make(chan struct{})
			// The remains of the first write are cut off right before the next one.
			d.Hook(func(op disktest.Op) error {
				switch {
				case op.Kind == disktest.OpTruncate && !failing:
					<-hang
				case op.Kind == disktest.OpTruncate:
					return syscall.EIO
				case op.Kind == disktest.OpWrite && failing:
					return &disktest.ShortError{Written: 1, Err: errDiskFull}
				}
				return nil
			})
			_, err := s.Journal.Append(t.Context(), treeKey(0), 0, batchOf(testTime, false, "lost"))
			require.ErrorIs(t, err, errDiskFull)
			failing = false

			ctx, cancel := context.WithCancel(t.Context())
			abandoned := make(chan error, 1)
			go func() {
				_, err := s.Journal.Append(ctx, treeKey(1), 0, batchOf(testTime, false, "of the first"))
				abandoned <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-abandoned, context.Canceled)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					_, err := s.Journal.Append(t.Context(), treeKey(2+i), 0,
						batchOf(testTime, false, fmt.Sprint("of number ", i)))
					assert.NoError(t, err)
				})
			}
			synctest.Wait()
			close(hang)
			wg.Wait()
			for i := range 9 {
				l, err := readLog(t.Context(), s.Journal, treeKey(1+i))
				require.NoError(t, err)
				require.Len(t, l.texts, 1)
				require.Contains(t, l.texts[0], "of ")
			}
			require.NoError(t, s.Close())
		})
	}
}

// A loop over entries or roots ends with ErrClosed when the store is closed within it.
func TestCloseEndsLoopsOverJournal(t *testing.T) {
	roots := func(s *session.Store, yield func(error)) {
		for _, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
			yield(err)
		}
	}
	for name, loop := range map[string]func(s *session.Store, yield func(error)){
		"read": func(s *session.Store, yield func(error)) {
			for _, err := range s.Journal.Read(t.Context(), treeKey(0), 0) {
				yield(err)
			}
		},
		"roots": roots, "idle": roots,
		"due": func(s *session.Store, yield func(error)) {
			q := session.RootQuery{DueBefore: testTime.AddDate(1, 0, 0)}
			for _, err := range s.Journal.Roots(t.Context(), q) {
				yield(err)
			}
		},
	} {
		s := openOn(t, disktest.New())
		due := testTime
		if name == "idle" {
			due = time.Time{}
		}
		for i := range 3 {
			for n := range 3 {
				_, err := s.Journal.Append(t.Context(), treeKey(i), session.Seq(n),
					batchOf(due, false, "x"))
				require.NoError(t, err)
			}
		}
		if name == "idle" {
			require.NoError(t, dirstore.Compact(s))
		}
		var got []error
		loop(s, func(err error) {
			got = append(got, err)
			require.NoError(t, s.Close())
		})
		require.Len(t, got, 2, name)
		require.NoError(t, got[0], name)
		require.ErrorIs(t, got[1], session.ErrClosed, name)
	}
}
