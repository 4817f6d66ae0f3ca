package dirstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
)

// What has been written and not yet synced is there for nobody: not to read, not to be found, and
// not to be appended to.
func TestNothingIsSeenBeforeItIsDurable(t *testing.T) {
	for _, reset := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			r := &journalRun{m: make(journalModel)}
			require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(time.Time{}, false, "before")))
			hang := make(chan struct{})
			d.Hook(func(op disktest.Op) error {
				if op.Kind == disktest.OpSync {
					<-hang
				}
				return nil
			})
			answers := make(chan error, 3)
			for i := range 2 { // one goes on with a tree, one begins one
				go func() {
					_, err := s.Journal.Append(t.Context(), tree(1+i), session.Seq(1-i), batchOf(noon, reset, "under way"))
					answers <- err
				}()
			}
			synctest.Wait()
			r.m.verify(t, s, "while it is synced")
			for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{DueBefore: noon.Add(time.Hour)}) {
				t.Error(h, err)
			}
			go func() {
				_, err := s.Journal.Append(t.Context(), tree(1), 2, batchOf(noon, false, "after"))
				answers <- err
			}()
			synctest.Wait()
			assert.Empty(t, answers)
			close(hang)
			for range 3 {
				require.NoError(t, <-answers)
			}
			d.Hook(nil)
			l, err := readLog(t.Context(), s.Journal, tree(1))
			require.NoError(t, err)
			assert.Equal(t, "after", l.texts[len(l.texts)-1])
			require.NoError(t, s.Close())
		})
	}
}

// Thousands of trees of which each has next to nothing share one file, and those that come at the
// same time one sync.
func TestTinyTreesShareTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trees = 5000
		d := disktest.New()
		s := openOn(t, d)
		_, err := s.Journal.Append(t.Context(), tree(trees), 0, batchOf(noon, false, "x"))
		require.NoError(t, err)
		hang := make(chan struct{})
		var mu sync.Mutex
		ops := make(map[disktest.OpKind]int)
		d.Hook(func(op disktest.Op) error {
			mu.Lock()
			ops[op.Kind]++
			mu.Unlock()
			if op.Kind == disktest.OpSync {
				<-hang
			}
			return nil
		})
		var wg sync.WaitGroup
		for i := range trees {
			wg.Go(func() {
				_, err := s.Journal.Append(t.Context(), tree(i), 0, batchOf(noon, false, fmt.Sprint("of tree ", i)))
				assert.NoError(t, err)
			})
			if i == 0 {
				synctest.Wait() // the others wait for its sync
			}
		}
		synctest.Wait()
		close(hang)
		wg.Wait()
		assert.Equal(t, 2, ops[disktest.OpSync], "one of the first, one of all others")
		assert.Equal(t, 2, ops[disktest.OpWrite])
		assert.Zero(t, ops[disktest.OpCreate])
		d.Hook(nil)
		require.NoError(t, s.Close())
		entries, err := d.ReadDir("/journal")
		require.NoError(t, err)
		files := 0
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".wal") {
				files++
			}
		}
		assert.Equal(t, 1, files)
		s = openOn(t, d)
		for i := range trees {
			l, err := readLog(t.Context(), s.Journal, tree(i))
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint("of tree ", i)}, l.texts)
		}
		require.NoError(t, s.Close())
	})
}
