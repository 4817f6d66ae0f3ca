package openclaw

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// DefaultWatchInterval is how long [Live.Watch] waits between two looks unless it is told.
const DefaultWatchInterval = 2 * time.Second

// ErrNoFile says that a Result cannot be watched, since it is not that of a file.
var ErrNoFile = errors.New("openclaw: there is no file to watch: the Result is that of Parse")

// A Reading is what [Live.Watch] has found in its file.
type Reading struct {
	// Result is what the file says, with its Doubts and what is Untaken. Nil with Err.
	Result *Result
	// Changes are those of [Live.Update]. None: the file says what is in effect.
	Changes []Change
	// Err is why the file cannot be read, or [FieldErrors] with the place of each mistake. What was
	// in effect stays so.
	Err error
}

// Watch looks at the file of the Result again and again until ctx ends, and then returns nil. It
// does what [Live.Update] does with each new text of the file, and calls tell with what came of it:
//
//   - with each text that was not there at the last look and can be read;
//   - with an error, once, if two looks in a row have found the same one: a file that is half
//     written, or away while an editor puts another in its place, is not told;
//   - when the file can be read again after that, also if it says what it said before.
//
// A nil tell is not called. Between two looks Watch waits for every; zero and less:
// [DefaultWatchInterval]. A look reads the file unless its size, its time and what the disk knows
// it by are as they were, and the time is some seconds ago; what has changed is decided by the
// content. Links are followed.
//
// Watch runs in the goroutine of its caller and starts none. It waits for tell, and for a disk that
// hangs. It returns [ErrNoFile] at once for a Result of [Parse]. A tell that panics ends it with a
// *[spawn.PanicError]; what the Reading says is in effect then.
func (l *Live) Watch(ctx context.Context, every time.Duration, tell func(Reading)) error {
	if l.first.from == nil {
		return ErrNoFile
	}
	if every <= 0 {
		every = DefaultWatchInterval
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	w := watcher{good: l.first.parsed.sum}
	last := sight{sum: w.good, res: &l.first}
	for ctx.Err() == nil {
		now := l.first.from.look(last, l.first.parsed.o, time.Now())
		if w.isNews(last, now) && ctx.Err() == nil {
			r := Reading{Result: now.res, Err: now.err}
			if now.err == nil {
				r.Changes = l.Update(now.res)
			}
			if err := telling(tell, r); err != nil {
				return err
			}
		}
		last = now
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
	return nil
}

// telling calls tell, which may be nil, and returns its panic as an error.
func telling(tell func(Reading), r Reading) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			err = &spawn.PanicError{Value: v, Stack: stack}
		}
	}()
	if tell != nil {
		tell(r)
	}
	return nil
}

// A sight is what one look at a file has found.
type sight struct {
	info fs.FileInfo // nil: there is no file, or it cannot be opened
	at   time.Time   // when the look began
	sum  [sha256.Size]byte
	res  *Result
	err  error
}

// look looks at the file. What the last look has found stands if the file is as it was then.
func (s *source) look(last sight, o Options, now time.Time) sight {
	info, err := s.stat()
	if err != nil {
		return sight{err: err}
	}
	if last.isOf(info) {
		return last
	}
	data, info, err := s.read()
	if err != nil {
		return sight{err: err}
	}
	seen := sight{info: info, at: now, sum: sha256.Sum256(data)}
	if last.err == nil && last.sum == seen.sum {
		seen.res = last.res
		return seen
	}
	if seen.res, seen.err = parseFile(s.name, data, o); seen.err == nil {
		seen.res.from = s
	}
	return seen
}

// settled is how long after a write another one has another time, on any disk.
const settled = 3 * time.Second

// isOf reports whether a file has not changed since the look. After a mistake it may be right now
// all the same: a directory that could not be opened can be.
func (s *sight) isOf(info fs.FileInfo) bool {
	return s.err == nil && s.info != nil && os.SameFile(s.info, info) &&
		s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) &&
		s.at.Sub(info.ModTime()) > settled
}

// A watcher decides what of the looks at a file is news.
type watcher struct {
	good [sha256.Size]byte // of the last text that could be read
	told string            // the error that was told last; empty: the file could be read since
}

// isNews reports whether a look has found what is to be told, which then counts as told.
func (w *watcher) isNews(last, now sight) bool {
	if now.err == nil {
		news := now.sum != w.good || w.told != ""
		w.good, w.told = now.sum, ""
		return news
	}
	text := now.err.Error()
	if last.err == nil || last.err.Error() != text || w.told == text {
		return false
	}
	w.told = text
	return true
}
