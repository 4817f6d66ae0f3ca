package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A disk that is full refuses what is new, says why, and has nothing half; when there is room
// everything goes on by itself.
func TestFullDisk(t *testing.T) {
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			v := tmpfs(t, t.TempDir(), "64m")
			b := newInProcessBot(t, w, filepath.Join(v.dir, "state"))
			b.start(t)
			free := v.fill(t)
			eventually(t, "failure", func() bool { return b.failed(syscall.ENOSPC) > 30 })
			b.refused(t, syscall.ENOSPC)
			b.checkDisk(t, "while it is full")
			free()
			b.progress(t, "progress after there is room", 300)
			b.idle()
			b.refused(t, syscall.ENOSPC)
			b.end(t)
			require.Zero(t, b.sum.interrupted, "it costs no work")
		})
	}
}

// A directory on a full disk is opened all the same, and goes on when there is room; a new one is
// not, and nothing of it is in the way then.
func TestOpenOnFullDisk(t *testing.T) {
	v := tmpfs(t, t.TempDir(), "64m")
	b := newInProcessBot(t, managed, filepath.Join(v.dir, "state"))
	b.start(t)
	b.idle()
	require.NoError(t, b.close(endedContext(t)))
	free := v.fill(t)
	fresh := filepath.Join(v.dir, "new")
	for range 2 {
		_, err := dirstore.Open(fresh)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, fresh)
	}
	b.open(t)
	_, err := b.rt.Session(session.Must(session.MainKey("new"))).Post(t.Context(),
		agent.Incoming{Text: strings.Repeat("no room ", 10_000)})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, agent.ErrNotRecorded)
	free()
	b.end(t)
	s, err := dirstore.Open(fresh)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// Transcripts that cannot be written for a while can be read, lose no message, and everything goes
// on by itself.
func TestReadOnlyTranscripts(t *testing.T) {
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			b := newInProcessBot(t, w, filepath.Join(t.TempDir(), "state"))
			v := tmpfs(t, filepath.Join(b.dir, "sessions"), "64m")
			b.start(t)
			b.idle()
			require.NoError(t, b.load.waitIdle(t.Context(), b.rt))
			require.NoError(t, b.close(t.Context()))
			v.remount(t, "ro")
			b.open(t)
			b.readable(t) // transcripts that this life has not read yet
			v.remount(t, "rw")
			b.work(t)
			b.progress(t, "progress", 300)
			v.remount(t, "ro")
			b.progress(t, "progress of what needs no transcript", 20)
			b.unwritable(t)
			b.checkDisk(t, "while it is read-only")
			v.remount(t, "rw")
			b.progress(t, "progress after it can be written", 300)
			b.idle()
			b.refused(t, syscall.EROFS)
			b.end(t)
			require.Zero(t, b.sum.interrupted, "it costs no work")
		})
	}
}

// endedContext returns a context that has ended, for a Shutdown that does not wait.
func endedContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A directory on a read-only disk is not opened, for a reason that is said, but can be looked at;
// and is as it was when it can be written.
func TestReadOnlyDirectory(t *testing.T) {
	v := tmpfs(t, t.TempDir(), "64m")
	b := newInProcessBot(t, managed, filepath.Join(v.dir, "state"))
	b.start(t)
	b.idle()
	require.NoError(t, b.close(endedContext(t)))
	v.remount(t, "ro")
	for range 2 {
		_, err := dirstore.Open(b.dir)
		require.ErrorIs(t, err, syscall.EROFS)
		require.ErrorContains(t, err, b.dir)
		_, err = dirstore.Open(filepath.Join(v.dir, "new"))
		require.ErrorIs(t, err, syscall.EROFS)
		require.ErrorContains(t, err, filepath.Join(v.dir, "new"))
		b.checkDisk(t, "while it is read-only")
	}
	v.remount(t, "rw")
	b.open(t)
	b.end(t)
}

// A disk that becomes read-only under an open log, as one does that has errors, is read as before,
// and goes on once it has been repaired and the directory opened again. It is at rest at that
// moment: a sync that is under way then may say that all is well and lose what was written, which
// is the system's fault and not ours.
func TestDiskBecomesReadOnly(t *testing.T) {
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			dir := t.TempDir()
			v := ext4(t, dir, filepath.Join(dir, "mounted"))
			b := newInProcessBot(t, w, filepath.Join(v.dir, "state"))
			b.keep = true
			b.start(t)
			b.idle()
			require.NoError(t, b.load.waitIdle(t.Context(), b.rt))
			v.remount(t, "abort")
			b.work(t)
			eventually(t, "failure", func() bool { return b.failed(syscall.EROFS) > 30 })
			b.takesNoLine(t) // its log takes none, and there may be none to file
			b.checkDisk(t, "while it is read-only")
			b.idle()
			b.refused(t, syscall.EROFS)
			err := b.close(endedContext(t))
			if _, tries := errors.AsType[*agent.StillRunningError](err); !tries { // at that moment
				require.NoError(t, err)
			}
			v.again(t)
			b.again(t)
		})
	}
}

// A disk that cannot keep what it has taken, because there is less room than it was promised, fails
// to sync. What is on it is unknown then, so that the journal takes nothing more, also when there
// is room again, until the directory is opened anew, and the Runtime ends with that.
func TestSyncFails(t *testing.T) {
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			host := tmpfs(t, t.TempDir(), "24m")
			b := newInProcessBot(t, w, filepath.Join(t.TempDir(), "state"))
			v := ext4(t, host.dir, filepath.Join(b.dir, "journal"))
			b.keep = true
			b.start(t)
			free := host.fill(t)
			err := <-b.running
			require.ErrorIs(t, err, session.ErrSync)
			require.True(t, errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC),
				"a kernel says one or the other of a write that found no room: %v", err)
			require.ErrorContains(t, err, filepath.Join(v.dir, "00000001.wal"))
			b.idle()
			b.refused(t, session.ErrSync)
			free()
			for range 2 {
				_, err := b.store.Journal.Append(t.Context(), session.Must(session.MainKey("new")),
					0, session.Batch{Entries: []session.Entry{{Payload: session.Raw("1")}}})
				require.ErrorIs(t, err, session.ErrSync, "although there is room")
			}
			require.NoError(t, b.store.Close())
			v.again(t)
			b.again(t)
		})
	}
}

// A disk that is gone for a while and comes back costs nothing but that while: nothing is recorded
// that the disk might not have, the store says so, and everything goes on by itself.
func TestDiskIsGoneForAWhile(t *testing.T) {
	for _, w := range []world{callerRun, managed} {
		t.Run(string(w), func(t *testing.T) {
			whole := tmpfs(t, t.TempDir(), "64m")
			v := &volume{dir: t.TempDir()}
			v.mount(t, "--bind", whole.dir)
			b := newInProcessBot(t, w, filepath.Join(v.dir, "state"))
			b.start(t)
			require.NoError(t, runCommand("umount", "-l", v.dir))
			_, err := b.store.Transcripts.Append(t.Context(),
				session.Ref{Key: session.Must(session.MainKey("nobody")), SessionID: "x"}, 0,
				session.Message{Role: session.MessageUser})
			require.ErrorIs(t, err, syscall.ENOENT)
			require.ErrorContains(t, err, v.dir)
			for _, err := range dirstore.Verify(t.Context(), b.dir) {
				require.ErrorIs(t, err, syscall.ENOENT)
			}
			eventually(t, "failure", func() bool { return b.failed(syscall.ENOENT) > 30 })
			require.ErrorIs(t, b.store.Health(t.Context()), syscall.ENOENT)
			v.mount(t, "--bind", whole.dir)
			b.progress(t, "progress after it is back", 300)
			eventually(t, "health", func() bool { return b.store.Health(t.Context()) == nil })
			b.idle()
			b.refused(t, syscall.ENOENT)
			b.end(t)
			require.Zero(t, b.sum.interrupted, "it costs no work")
		})
	}
}

// start opens the bot, has it work, and returns when it has recorded some of that.
func (b *inProcessBot) start(t *testing.T) {
	t.Helper()
	b.open(t)
	b.work(t)
	eventually(t, "progress", func() bool { return b.appends() > 300 })
}

// progress returns when more than n appends were acknowledged since it was called.
func (b *inProcessBot) progress(t *testing.T, what string, n int) {
	t.Helper()
	if underRace && n > 100 { // the step large of .ci/run waits for all of it
		n /= 5
	}
	before := b.appends()
	eventually(t, what, func() bool { return b.appends() > before+n })
}

// readable fails unless the bot can read every transcript that there is.
func (b *inProcessBot) readable(t *testing.T) {
	t.Helper()
	for _, ref := range b.transcripts(t, false) {
		require.NotZero(t, b.lastLine(t, ref))
	}
}

// lastLine reads a transcript and returns where it ends.
func (b *inProcessBot) lastLine(t *testing.T, ref session.Ref) (end session.Pos) {
	t.Helper()
	for line, err := range b.store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		end = line.Pos
	}
	return end
}

// unwritable fails unless the bot can read every transcript that there is, and says why it writes
// none, once it knows that it cannot.
func (b *inProcessBot) unwritable(t *testing.T) {
	t.Helper()
	eventually(t, "a store that says so", func() bool {
		return errors.Is(b.store.Health(t.Context()), syscall.EROFS)
	})
	b.takesNoLine(t)
}

// takesNoLine fails unless the bot can read every transcript that there is, and says why it writes
// none: an error names the file of the transcript, or the log that takes its lines first, which
// depends on what has failed before.
func (b *inProcessBot) takesNoLine(t *testing.T) {
	t.Helper()
	lost := session.Message{Role: session.MessageUser, Text: "lost"}
	for _, ref := range b.transcripts(t, false) {
		end := b.lastLine(t, ref)
		require.NotZero(t, end)
		_, err := b.store.Transcripts.Append(t.Context(), ref, end, lost)
		require.ErrorIs(t, err, syscall.EROFS)
		require.ErrorContains(t, err, b.dir)
	}
	fresh := session.Ref{Key: session.Must(session.MainKey("nobody")), SessionID: "x"}
	_, err := b.store.Transcripts.Append(t.Context(), fresh, 0, lost)
	require.ErrorIs(t, err, syscall.EROFS)
}

// refused fails unless each caller was told what is wrong with the disk, or something that a bot
// may be told at any time.
func (b *inProcessBot) refused(t *testing.T, want error) {
	t.Helper()
	for _, f := range b.takeFailures() {
		_, unwell := errors.AsType[*agent.JoinError](f.err)
		// a turn that is stopped tries for a second to keep what it has
		_, slow := errors.AsType[*agent.StillRunningError](f.err)
		expected := unwell || slow || slices.ContainsFunc([]error{
			context.DeadlineExceeded, context.Canceled, spawn.ErrShutdown, spawn.ErrStopped,
			spawn.ErrStopping,
			agent.ErrNotFound,    // it has been archived
			agent.ErrUnconfirmed, // the turn in which it happened was cancelled for that
			spawn.ErrStale,       // that turn was over before
			// On a busy machine children wait for the disk longer than a caller does.
			&policy.Refusal{Rule: policy.RuleChildren},
		}, func(e error) bool { return errors.Is(f.err, e) })
		switch {
		case errors.Is(f.err, want):
			said := []error{agent.ErrUnconfirmed, agent.ErrNotRecorded, agent.ErrUnreadable}
			says := func(e error) bool { return errors.Is(f.err, e) }
			require.True(t, slices.ContainsFunc(said, says), "%s: %v", f.what, f.err)
			require.ErrorContains(t, f.err, b.dir, f.what)
		case !expected:
			t.Errorf("%s: %v", f.what, f.err)
		}
	}
}

// again opens what is on a disk that was repaired, and has the bot work on it until it comes to its
// end.
func (b *inProcessBot) again(t *testing.T) {
	t.Helper()
	b.checkDisk(t, "after the repair")
	b.open(t)
	b.work(t)
	b.progress(t, "progress after the repair", 300)
	b.idle()
	b.end(t)
}

// filesRunner answers with the names and sizes of the files of a turn, as it finds them in
// Turn.Files and in its directory.
func filesRunner(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if strings.Contains(t.Input(), "block") {
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	}
	var said []string
	for _, fsys := range []fs.FS{t.Files, os.DirFS(t.Dir)} {
		err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			data, err := fs.ReadFile(fsys, path)
			said = append(said, fmt.Sprint(d.Name(), " ", len(data)))
			return err
		})
		if err != nil {
			return agent.Result{}, err
		}
	}
	return agent.Result{Text: strings.Join(said, ", ")}, nil
}

// A safeLog keeps what is logged.
type safeLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *safeLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// A disk that is full while attachments are written, that of the store or that of the work
// directory, refuses the spawn or fails the turn with the reason, has nothing half, and takes the
// next ones when there is room. What was acknowledged before waits for room.
func TestFullDiskWhileFilesAreWritten(t *testing.T) {
	state, work := tmpfs(t, t.TempDir(), "64m"), tmpfs(t, t.TempDir(), "8m")
	store, err := dirstore.Open(filepath.Join(state.dir, "state"))
	require.NoError(t, err)
	said := new(safeLog)
	cfg := agent.Config{
		Runner: agent.RunnerFunc(filesRunner), Store: store, Grace: time.Second,
		Logger:  slog.New(slog.NewTextHandler(said, nil)),
		Deliver: func(context.Context, agent.Delivery) error { return nil },
		WorkDir: func(string) string { return work.dir },
	}
	cfg.Rules.Subagents.MaxConcurrent = 1
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	running := make(chan error, 1)
	go func() { running <- rt.Run(context.WithoutCancel(t.Context())) }()
	root := rt.Session(session.Must(session.MainKey("main")))
	const size = 900_000
	whole := fmt.Sprint("data ", size)
	spawnIt := func() (*agent.Child[string], error) {
		return root.Spawn(t.Context(), agent.Task{Text: "x", Attachments: []agent.Attachment{
			{Name: "small", Reader: strings.NewReader("s")},
			{Name: "data", Reader: strings.NewReader(strings.Repeat("x", size))},
		}})
	}
	waitFor := func(c *agent.Child[string]) string {
		text, err := c.Wait(t.Context())
		require.NoError(t, err)
		return text
	}

	free := work.fill(t)
	child, err := spawnIt()
	require.NoError(t, err)
	_, err = child.Wait(t.Context())
	require.ErrorContains(t, err, "no space left on device")
	require.ErrorContains(t, err, string(child.ID()))
	left, err := os.ReadDir(work.dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "the ballast alone")
	free()
	child, err = child.Post(t.Context(), agent.Incoming{Text: "again"})
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(waitFor(child), whole))

	free = state.fill(t)
	for range 2 {
		_, err = spawnIt()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, err, agent.ErrNotRecorded)
	}
	free()
	eventually(t, "list of runs", func() bool {
		runs, err := root.Runs(t.Context()) // a tree whose journal fails may not be readable
		return err == nil && len(runs) == 1
	})
	child, err = spawnIt()
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(waitFor(child), whole))

	blocker, err := root.Spawn(t.Context(), agent.Task{Text: "block"})
	require.NoError(t, err)
	child, err = spawnIt() // it waits for the slot
	require.NoError(t, err)
	free = state.fill(t)
	// The last page of the log may still have room for all that follows: another tree takes it.
	pad := rt.Session(session.Must(session.NamedKey("main", "pad")))
	for i := 0; err == nil; i++ {
		err = pad.SetRoute(t.Context(), session.Route{Channel: "irc", To: fmt.Sprint(i)})
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	said.forget()
	stopped := make(chan error, 1)
	go func() { stopped <- blocker.Stop(context.WithoutCancel(t.Context())) }()
	eventually(t, "failure", func() bool { // which of the two needs room first depends on the disk
		return said.has("a transcript cannot be reached") || said.has("the journal fails")
	})
	free()
	require.NoError(t, <-stopped)
	require.Equal(t, 2, strings.Count(waitFor(child), whole), "it waited for room")

	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, errors.Join(<-running, store.Close()))
	for f, err := range dirstore.Verify(t.Context(), filepath.Join(state.dir, "state")) {
		require.NoError(t, err, f.Path)
	}
}
