package spawn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// longText has runes of two bytes and is above what a tree keeps.
var longText = strings.Repeat("é", 50_000)

// faultyFiles are files whose methods the test replaces.
type faultyFiles struct {
	session.Files

	mu   sync.Mutex
	puts int
	put  func(n int, put func() (session.File, error)) (session.File, error) // n from 1
	open func() error
}

func (f *faultyFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	f.mu.Lock()
	f.puts++
	n, put := f.puts, f.put
	f.mu.Unlock()
	inner := func() (session.File, error) { return f.Files.Put(ctx, ref, r, want) }
	if put == nil {
		return inner()
	}
	return put(n, inner)
}

func (f *faultyFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	f.mu.Lock()
	open := f.open
	f.mu.Unlock()
	if open != nil {
		if err := open(); err != nil {
			return nil, err
		}
	}
	return f.Files.Open(ctx, ref, hash)
}

// setOpen replaces Open.
func (f *faultyFiles) setOpen(open func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = open
}

// longStore returns a store in memory and its files.
func longStore() (*session.Store, *faultyFiles) {
	store := session.NewMemory()
	files := &faultyFiles{Files: store.Files}
	store.Files = files
	return store, files
}

// longConfig has a child say text, and passes deliveries on.
func longConfig(store *session.Store, result spawn.Result) (spawn.Config, chan spawn.Delivery) {
	got := make(chan spawn.Delivery, 10)
	return spawn.Config{
		Store: store,
		Runner: runnerFunc(func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
			return spawn.TurnResult{Result: result}, nil
		}),
		CallerRun: true,
		Deliver:   func(_ context.Context, o spawn.Delivery) error { got <- o; return nil },
	}, got
}

// requireHead fails unless a result is the beginning of longText with the name of the whole.
func requireHead(t *testing.T, r spawn.Result) {
	t.Helper()
	require.Equal(t, int64(len(longText)), r.Whole.Size)
	requireHeadText(t, r.Text)
}

func requireHeadText(t *testing.T, text string) {
	t.Helper()
	require.True(t, strings.HasPrefix(longText, text))
	require.True(t, utf8.ValidString(text), "it is cut at a rune")
	require.Len(t, text, 4096)
}

// A long text is in a file of its session: who waits for it and who is handed it get it whole, and
// who looks gets its beginning and the name of the whole, also after a restart.
func TestLongTextIsInAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, files := longStore()
		cfg, got := longConfig(store, spawn.Result{Text: longText})
		s := openSupervisor(t, cfg)
		ctx, leave := context.WithCancel(t.Context())
		shown := make(chan spawn.TreeEvent, 10)
		go func() {
			defer close(shown)
			for e, err := range s.Events(ctx, spawn.EventQuery{Root: topKey}) {
				if err != nil {
					t.Error(err)
				}
				if e.Kind == spawn.EventTurnEnded || e.Kind == spawn.EventEnded {
					shown <- e
				}
			}
		}()
		synctest.Wait()
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		require.Equal(t, longText, (<-got).Completion.Run.Result.Text)
		for range 2 {
			e := <-shown
			requireHead(t, spawn.Result{Text: e.Text, Whole: e.Whole})
		}
		leave()
		runs, err := s.Wait(t.Context(), topKey, refsOf(info.Key), spawn.JoinOptions{})
		require.NoError(t, err)
		require.Equal(t, longText, runs[0].Result.Text)
		require.Equal(t, int64(len(longText)), runs[0].Result.Whole.Size, "the name stays")

		found, err := s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err)
		requireHead(t, found.Result)
		data, err := json.Marshal(found)
		require.NoError(t, err)
		require.Contains(t, string(data), found.Result.Whole.Hash)
		runs, err = s.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		requireHead(t, runs[0].Result)
		view, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
		require.NoError(t, err)
		require.NotEmpty(t, view.Runs)
		for _, run := range view.Runs {
			requireHead(t, run.Result)
		}
		require.NoError(t, found.Result.Load(t.Context(), store.Files,
			session.Ref{Key: info.Key, SessionID: info.SessionID}))
		require.Equal(t, longText, found.Result.Text)

		synctest.Wait()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		ref := session.Ref{Key: info.Key, SessionID: info.SessionID}
		_, err = files.Files.Put(t.Context(), ref, strings.NewReader("late"), session.File{})
		require.ErrorIs(t, err, session.ErrArchived, "the files go with the run")
		whole, err := session.ReadFile(t.Context(), store.Files, ref, found.Result.Whole)
		require.NoError(t, err)
		require.Equal(t, longText, string(whole))
		require.NoError(t, spawntest.Audit(store.Journal.Read(t.Context(), topKey, 0)))
	})
}

// The same holds for a JSON, of which the tree keeps nothing but the name.
func TestLongJSONIsInAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long, err := json.Marshal(longText)
		require.NoError(t, err)
		store, _ := longStore()
		cfg, got := longConfig(store, spawn.Result{Text: longText, JSON: long})
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		d := <-got
		require.True(t, bytes.Equal(long, d.Completion.Run.Result.JSON))
		require.Equal(t, longText, d.Completion.Run.Result.Text)
		found, err := s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err)
		requireHead(t, found.Result)
		require.Nil(t, found.Result.JSON)
		require.Equal(t, int64(len(long)), found.Result.WholeJSON.Size)
	})
}

// Those who watch the tree see the beginning and the name, and a short result and a store without
// files are as ever.
func TestWhatIsNotPutIntoAFile(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		files bool
	}{
		"as long as a tree keeps": {strings.Repeat("x", 64<<10), true},
		"without files":           {longText, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, files := longStore()
				if !c.files {
					store.Files = nil
				}
				cfg, got := longConfig(store, spawn.Result{Text: c.text})
				s := openSupervisor(t, cfg)
				info, err := s.Spawn(
					t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true},
				)
				require.NoError(t, err)
				require.Equal(t, c.text, (<-got).Completion.Run.Result.Text)
				found, err := s.Find(t.Context(), topKey, refOf(info.Key))
				require.NoError(t, err)
				require.Equal(t, c.text, found.Result.Text)
				require.Zero(t, found.Result.Whole)
				require.Zero(t, files.puts)
			})
		})
	}
}

// A Put that fails is tried again while the store may recover. If it cannot, the text stays in the
// tree, and nothing is lost.
func TestPutOfALongResultFails(t *testing.T) {
	full := errors.New("no space left on device")
	for name, c := range map[string]struct {
		put    func(n int, put func() (session.File, error)) (session.File, error)
		inFile bool
	}{
		"for a while": {func(n int, put func() (session.File, error)) (session.File, error) {
			if n < 5 {
				return session.File{}, full
			}
			return put()
		}, true},
		"for good": {func(int, func() (session.File, error)) (session.File, error) {
			return session.File{}, session.ErrClosed
		}, false},
		"with a panic": {func(n int, put func() (session.File, error)) (session.File, error) {
			if n < 3 {
				panic("store")
			}
			return put()
		}, true},
		"by ending its goroutine": {func(int, func() (session.File, error)) (session.File, error) {
			runtime.Goexit()
			return session.File{}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, files := longStore()
				files.put = c.put
				cfg, got := longConfig(store, spawn.Result{Text: longText})
				s := openSupervisor(t, cfg)
				info, err := s.Spawn(
					t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true},
				)
				require.NoError(t, err)
				require.Equal(t, longText, (<-got).Completion.Run.Result.Text)
				found, err := s.Find(t.Context(), topKey, refOf(info.Key))
				require.NoError(t, err)
				require.Equal(t, spawn.StatusOK, found.Status)
				require.Equal(t, c.inFile, !found.Result.Whole.IsZero())
				require.Equal(t, c.inFile, found.Result.Text != longText)
			})
		})
	}
}

// A turn whose Put is tried again and again can be stopped. Its text stays in the tree.
func TestStopDuringPutOfALongResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, files := longStore()
		files.put = func(int, func() (session.File, error)) (session.File, error) {
			return session.File{}, errors.New("no space left on device")
		}
		cfg, _ := longConfig(store, spawn.Result{Text: longText})
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, s.Stop(t.Context(), topKey, info.Key, "enough"))
		found, err := s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err)
		require.Equal(t, spawn.StatusCancelled, found.Status)
		require.Equal(t, longText, found.Result.Text)
	})
}

// A result that cannot be loaded is an error for who waits for it, and a delivery that failed: no
// one gets the beginning in its place. When the file is back, both get it.
func TestLongResultThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, files := longStore()
		gone := &session.CorruptError{File: "x", Reason: "gone"}
		files.setOpen(func() error { return gone })
		cfg, got := longConfig(store, spawn.Result{Text: longText})
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		of := []spawn.RunRef{info.Ref()}
		runs, err := s.Wait(t.Context(), topKey, of, spawn.JoinOptions{})
		require.ErrorIs(t, err, spawn.ErrUnreadable)
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.Nil(t, runs)
		synctest.Wait()
		out, err := s.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Len(t, out, 1)
		require.Contains(t, out[0].Error, "gone")
		require.Empty(t, got)
		files.setOpen(func() error { panic("store") })
		_, err = s.Wait(t.Context(), topKey, of, spawn.JoinOptions{})
		require.ErrorIs(t, err, spawn.ErrUnreadable)

		files.setOpen(nil)
		require.Equal(t, longText, (<-got).Completion.Run.Result.Text)
		runs, err = s.Wait(t.Context(), topKey, of, spawn.JoinOptions{})
		require.NoError(t, err)
		require.Equal(t, longText, runs[0].Result.Text)
	})
}

// The files of a run that leaves the tree are archived with its transcript. Until that has
// succeeded, the tree keeps the run and tries again.
func TestFilesAreArchivedWithTheirRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := longStore()
		failing := &failingArchive{Files: store.Files, left: 3}
		store.Files = failing
		cfg, got := longConfig(store, spawn.Result{Text: longText})
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		<-got
		time.Sleep(61 * time.Minute)
		_, err = s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err, "it could not be archived yet")
		time.Sleep(48 * time.Hour)
		_, err = s.Find(t.Context(), topKey, refOf(info.Key))
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.Equal(t, 4, failing.calls)
	})
}

// A failingArchive fails the first calls of Archive.
type failingArchive struct {
	session.Files
	left, calls int
}

func (f *failingArchive) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	f.calls++
	if f.left--; f.left >= 0 {
		return errors.New("the disk does not answer")
	}
	return f.Files.Archive(ctx, ref, at)
}

// Whatever becomes of any write around a long result, of the journal or of the files, what the
// journal names is there for the next process, and it says what has become of the run.
func TestEveryFaultAroundALongResult(t *testing.T) {
	for _, fault := range []spawntest.Fault{
		spawntest.FaultDieBefore, spawntest.FaultDieAfter, spawntest.FaultFailBefore,
		spawntest.FaultLoseAck, spawntest.FaultPanicAfter, spawntest.FaultExitBefore,
	} {
		for n, reached := 1, true; reached && !t.Failed(); n++ {
			t.Run(fmt.Sprint(fault, " ", n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { reached = testLongResultFault(t, n, fault) })
			})
		}
	}
}

// testLongResultFault has the n-th write fail. It reports whether there were so many.
func testLongResultFault(t *testing.T, n int, fault spawntest.Fault) (reached bool) {
	store := session.NewMemory()
	crash := spawntest.NewCrashJournal(store.Journal).At(n, fault)
	cfg, _ := longConfig(
		&session.Store{Journal: crash, Files: crash.Files(store.Files)},
		spawn.Result{Text: longText},
	)
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	_, _ = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
	time.Sleep(time.Minute)
	reached = crash.Appends() >= n
	crash.Die()
	stop()
	if err := <-done; err != nil {
		t.Log(err) // its journal is dead
	}

	cfg.Store = store
	next := openSupervisor(t, cfg)
	require.NoError(t, next.Idle(t.Context(), topKey))
	runs, err := next.Runs(t.Context(), topKey, topKey, true)
	require.NoError(t, err)
	for i := range runs {
		ref := session.Ref{Key: runs[i].Key, SessionID: runs[i].SessionID}
		require.NoError(t, runs[i].Result.Load(t.Context(), store.Files, ref))
		if runs[i].Status == spawn.StatusOK {
			require.Equal(t, longText, runs[i].Result.Text)
		}
	}
	require.NoError(t, spawntest.Audit(store.Journal.Read(t.Context(), topKey, 0)))
	return reached
}
