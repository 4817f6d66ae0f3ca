package spawntest

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Recorder is a [session.Journal] that passes every call on to another one. It remembers every
// entry that was added, also those that a snapshot has replaced since. A Recorder comes from
// [NewRecorder]. It is safe for concurrent use.
type Recorder struct {
	session.Journal

	mu   sync.Mutex
	logs map[session.Key][]session.Entry
}

// NewRecorder returns a Recorder in front of j, which should be empty.
func NewRecorder(j session.Journal) *Recorder {
	return &Recorder{Journal: j, logs: make(map[session.Key][]session.Entry)}
}

// Append implements [session.Journal].
func (r *Recorder) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	r.mu.Lock() // so that what is remembered is in order
	defer r.mu.Unlock()
	entries := slices.Clone(b.Entries)
	last, err := r.Journal.Append(ctx, root, after, b)
	if err != nil {
		return last, err
	}
	for i := range entries {
		entries[i].Seq, entries[i].Batch = last-session.Seq(len(entries)-1-i), b.ID
	}
	r.logs[root] = append(r.logs[root], entries...)
	return last, nil
}

// History yields every entry that was ever added to the log of root, oldest first, and no error.
// Within a batch the sequences count up to that of its last entry.
func (r *Recorder) History(root session.Key) iter.Seq2[session.Entry, error] {
	r.mu.Lock()
	list := slices.Clone(r.logs[root])
	r.mu.Unlock()
	return func(yield func(session.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// RootKeys returns the roots to whose logs an entry was added, in the order of their texts.
func (r *Recorder) RootKeys() []session.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]session.Key, 0, len(r.logs))
	for k := range r.logs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// The errors of a CrashJournal and its files, and of [Process.Call].
var (
	// ErrDead says that the process has died.
	ErrDead = errors.New("spawntest: the process of this journal has crashed")
	// ErrFault says that a call had a fault, with which the process lives on.
	ErrFault = errors.New("spawntest: the journal failed")
)

// A Fault is what a CrashJournal does at an append. The zero Fault does nothing.
type Fault uint8

// The faults. After one that does not die, the appends that follow work.
const (
	FaultDieBefore   Fault = iota + 1 // the batch is not added, Append fails, and the journal dies
	FaultDieAfter                     // the batch is added, Append fails, and the journal dies
	FaultFailBefore                   // the batch is not added, and Append fails
	FaultLoseAck                      // the batch is added, and Append fails
	FaultPanicBefore                  // the batch is not added, and Append panics
	FaultPanicAfter                   // the batch is added, and Append panics
	FaultHang                         // the batch is not added; Append waits for ctx or Release
	FaultExitBefore                   // the batch is not added, and Append ends its goroutine
	FaultExitAfter                    // the batch is added, and Append ends its goroutine
)

var faultNames = [...]string{
	"none", "die before", "die after", "fail before", "lose ack", "panic before", "panic after",
	"hang", "exit before", "exit after",
}

// String returns the name of the fault, such as "lose ack".
func (f Fault) String() string { return enum.String(faultNames[:], "Fault", f) }

// A CrashJournal is a [session.Journal] that passes every call on to another one, until a fault
// that the test has set. A journal that has died answers every call with an error, as the store of
// a process that is gone. A CrashJournal comes from [NewCrashJournal]. It is safe for concurrent
// use.
type CrashJournal struct {
	inner session.Journal

	mu       sync.Mutex
	appends  int
	faults   map[int]Fault
	entries  map[string]Fault // by what their description holds
	dead     bool
	died     chan struct{}
	released chan struct{}
}

// NewCrashJournal returns a CrashJournal in front of j without a fault.
func NewCrashJournal(j session.Journal) *CrashJournal {
	return &CrashJournal{
		inner:    j,
		faults:   make(map[int]Fault),
		died:     make(chan struct{}),
		released: make(chan struct{}),
	}
}

// At sets the fault of the n-th append and returns j. Appends count from 1, over all logs, and
// those before the call of At are included.
func (j *CrashJournal) At(n int, f Fault) *CrashJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults[n] = f
	return j
}

// Unless is At, but keeps a fault that the n-th append has already.
func (j *CrashJournal) Unless(n int, f Fault) *CrashJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.faults[n] == 0 {
		j.faults[n] = f
	}
	return j
}

// AtEntry sets a fault that happens once: at the first append of an entry whose description by
// [spawn.Describe] contains text, such as "ended ok". It returns j.
func (j *CrashJournal) AtEntry(text string, f Fault) *CrashJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string]Fault)
	}
	j.entries[text] = f
	return j
}

// fault returns the fault of the append of b.
func (j *CrashJournal) fault(b session.Batch) Fault {
	if f := j.faults[j.appends]; f != 0 || len(j.entries) == 0 {
		return f
	}
	for _, e := range b.Entries {
		what := spawn.Describe(e)
		for text, f := range j.entries {
			if strings.Contains(what, text) {
				delete(j.entries, text)
				return f
			}
		}
	}
	return 0
}

// Die has the journal die now.
func (j *CrashJournal) Die() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.die()
}

func (j *CrashJournal) die() {
	if !j.dead {
		j.dead = true
		close(j.died)
	}
}

// Died returns a channel that is closed when the journal has died.
func (j *CrashJournal) Died() <-chan struct{} { return j.died }

// Release has the appends that hang fail, and those to come that would hang. It must be called at
// most once.
func (j *CrashJournal) Release() { close(j.released) }

// Appends returns how many appends there have been, those that failed included.
func (j *CrashJournal) Appends() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.appends
}

// Append implements [session.Journal].
func (j *CrashJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	err = j.write(ctx, b, func() error {
		seq, err = j.inner.Append(ctx, root, after, b)
		return err
	})
	if err != nil {
		return 0, err
	}
	return seq, nil
}

// write calls f, which writes b or a file, unless a fault keeps it from that.
func (j *CrashJournal) write(ctx context.Context, b session.Batch, f func() error) error {
	j.mu.Lock()
	if j.dead {
		j.mu.Unlock()
		return ErrDead
	}
	j.appends++
	fault := j.fault(b)
	if fault == FaultDieBefore {
		j.die()
	}
	j.mu.Unlock()

	switch fault {
	case FaultDieBefore:
		return ErrDead
	case FaultFailBefore:
		return ErrFault
	case FaultPanicBefore:
		panic(ErrFault)
	case FaultExitBefore:
		runtime.Goexit()
	case FaultHang:
		select {
		case <-ctx.Done():
		case <-j.released:
		}
		return ErrFault
	default: // the others come after the append
	}
	if err := f(); err != nil {
		return err
	}
	switch fault {
	case FaultDieAfter:
		j.Die()
		return ErrDead
	case FaultLoseAck:
		return ErrFault
	case FaultPanicAfter:
		panic(ErrFault)
	case FaultExitAfter:
		runtime.Goexit()
	default: // the others came before it
	}
	return nil
}

// Files returns files that pass every call on to f and die with j. A Put, an Archive, a
// Restore and a Remove count as appends, and have the faults of [CrashJournal.At].
func (j *CrashJournal) Files(f session.Files) session.Files { return crashFiles{f, j} }

type crashFiles struct {
	session.Files
	j *CrashJournal
}

// Put implements [session.Files].
func (f crashFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (file session.File, err error) {
	err = f.j.write(ctx, session.Batch{}, func() error {
		file, err = f.Files.Put(ctx, ref, r, want)
		return err
	})
	if err != nil {
		return session.File{}, err
	}
	return file, nil
}

// Open implements [session.Files].
func (f crashFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if f.dead() {
		return nil, ErrDead
	}
	return f.Files.Open(ctx, ref, hash)
}

// List implements [session.Files].
func (f crashFiles) List(ctx context.Context, ref session.Ref) iter.Seq2[session.File, error] {
	if f.dead() {
		return func(yield func(session.File, error) bool) { yield(session.File{}, ErrDead) }
	}
	return f.Files.List(ctx, ref)
}

// Archive implements [session.Files].
func (f crashFiles) Archive(ctx context.Context, ref session.Ref, at time.Time) error {
	return f.j.write(ctx, session.Batch{}, func() error { return f.Files.Archive(ctx, ref, at) })
}

// Restore implements [session.Files].
func (f crashFiles) Restore(ctx context.Context, ref session.Ref) error {
	return f.j.write(ctx, session.Batch{}, func() error { return f.Files.Restore(ctx, ref) })
}

// Remove implements [session.Files].
func (f crashFiles) Remove(ctx context.Context, ref session.Ref) error {
	return f.j.write(ctx, session.Batch{}, func() error { return f.Files.Remove(ctx, ref) })
}

func (f crashFiles) dead() bool {
	select {
	case <-f.j.died:
		return true
	default:
		return false
	}
}

// Read implements [session.Journal].
func (j *CrashJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		select {
		case <-j.died:
			yield(session.Entry{}, ErrDead)
			return
		default:
		}
		for e, err := range j.inner.Read(ctx, root, after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Roots implements [session.Journal].
func (j *CrashJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		select {
		case <-j.died:
			yield(session.Head{}, ErrDead)
			return
		default:
		}
		for h, err := range j.inner.Roots(ctx, q) {
			if !yield(h, err) {
				return
			}
		}
	}
}
