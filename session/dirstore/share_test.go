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

// A batch that is not synced yet cannot be read, found, or appended to.
func TestBatchIsUsedOnceItIsDurable(t *testing.T) {
	for _, reset := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			r := newJournalRun()
			require.NoError(t,
				r.append(t.Context(), s, treeKey(1), batchOf(time.Time{}, false, "before")))
			hang := make(chan struct{})
			d.Hook(func(op disktest.Op) error {
				if op.Kind == disktest.OpSync {
					<-hang
				}
				return nil
			})
			answers := make(chan error, 3)
			for i := range 2 { // the first goes on with a tree, the second begins one
				go func() {
					_, err := s.Journal.Append(t.Context(), treeKey(1+i), session.Seq(1-i),
						batchOf(testTime, reset, "under way"))
					answers <- err
				}()
			}
			synctest.Wait()
			r.m.verify(t, s, "while it is synced")
			q := session.RootQuery{DueBefore: testTime.Add(time.Hour)}
			for h, err := range s.Journal.Roots(t.Context(), q) {
				t.Error(h, err)
			}
			go func() {
				_, err := s.Journal.Append(t.Context(), treeKey(1), 2, batchOf(testTime, false, "after"))
				answers <- err
			}()
			synctest.Wait()
			assert.Empty(t, answers)
			close(hang)
			for range 3 {
				require.NoError(t, <-answers)
			}
			d.Hook(nil)
			l, err := readLog(t.Context(), s.Journal, treeKey(1))
			require.NoError(t, err)
			assert.Equal(t, "after", l.texts[len(l.texts)-1])
			require.NoError(t, s.Close())
		})
	}
}

// Thousands of tiny trees share one file, and concurrent appends to them share one sync.
func TestTinyTreesShareFileAndSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trees = 5000
		d := disktest.New()
		s := openOn(t, d)
		_, err := s.Journal.Append(t.Context(), treeKey(trees), 0, batchOf(testTime, false, "x"))
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
				_, err := s.Journal.Append(t.Context(), treeKey(i), 0,
					batchOf(testTime, false, fmt.Sprint("of tree ", i)))
				assert.NoError(t, err)
			})
			if i == 0 {
				synctest.Wait() // the others wait for its sync
			}
		}
		synctest.Wait()
		close(hang)
		wg.Wait()
		assert.Equal(t, 2, ops[disktest.OpSync], "the first append has one sync, all others have one")
		assert.Equal(t, 3, ops[disktest.OpWrite], "the first one makes room for the others")
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
		assert.Equal(t, 2, files, "the log, and the mark of its end")
		s = openOn(t, d)
		for i := range trees {
			l, err := readLog(t.Context(), s.Journal, treeKey(i))
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint("of tree ", i)}, l.texts)
		}
		require.NoError(t, s.Close())
	})
}
