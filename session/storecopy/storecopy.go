package storecopy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// Options say how a copy is made. The zero Options are ready.
type Options struct {
	// Progress is called after each log and each transcript with what was done so far, by one
	// goroutine. Nil: nothing is called.
	Progress func(Progress)
	// Now is the clock of the marks; nil: [time.Now].
	Now func() time.Time
}

// A Progress is how far a copy or its comparison has come.
type Progress struct {
	Verifying bool // everything is copied, and being compared
	Report         // of what is done
}

// A Report says what two Stores have in common after a copy.
type Report struct {
	Logs    int // of trees and of what is reserved
	Entries int // of all logs
	Members int // sessions that lead to their trees
	// Renumbered counts the logs whose sequences are other ones, see the package documentation.
	Renumbered  int
	Transcripts int // archived ones included
	Archived    int // of the transcripts
	Lines       int
	Files       int
	Bytes       int64 // of the files
	// Unknown has the transcripts whose files were not copied, because the source does not know
	// whose they are. They have a SessionID and do not have a Key.
	Unknown []session.Ref
}

// A NotEmptyError says that the target of a copy has something. It names some of it.
type NotEmptyError struct {
	Copied      time.Time     // when an earlier copy into the target has ended; zero: none has
	Logs        []session.Key // at most MaxNamed
	Transcripts []session.Ref // at most MaxNamed, archived ones and those of files included
}

// MaxNamed is how many logs and transcripts a NotEmptyError names at most.
const MaxNamed = 3

// Error names what is there.
func (e *NotEmptyError) Error() string {
	var text strings.Builder
	text.WriteString("storecopy: the target is not empty")
	if !e.Copied.IsZero() {
		fmt.Fprintf(&text, "; a copy into it ended at %s", e.Copied.UTC().Format(time.RFC3339))
	}
	for _, root := range e.Logs {
		fmt.Fprintf(&text, "; it has the log of %q", root)
	}
	for _, ref := range e.Transcripts {
		fmt.Fprintf(&text, "; it has the transcript %q of %q", ref.SessionID, ref.Key)
	}
	return text.String()
}

// An UnsupportedError says that a part of a Store lacks what a copy needs.
type UnsupportedError struct {
	Store string // "source" or "target"
	Part  string // "Journal", "Transcripts" or "Files"
	Wants string // the interface that it is not, or "" where the Store does not have the part
}

// Error says what is missing.
func (e *UnsupportedError) Error() string {
	if e.Wants == "" {
		return fmt.Sprintf("storecopy: the %s has no %s", e.Store, e.Part)
	}
	return fmt.Sprintf("storecopy: the %s of the %s is not a session.%s", e.Part, e.Store, e.Wants)
}

// A DifferenceError is the first thing in which a copy is not the original.
type DifferenceError struct {
	What   string // such as `log "agent:main:main", entry 17`
	Reason string
}

// Error says what is different.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("storecopy: the copy is not the original: %s: %s", e.What, e.Reason)
}

func differ(reason, format string, args ...any) error {
	return &DifferenceError{What: fmt.Sprintf(format, args...), Reason: reason}
}

// Copy copies everything that from has into to, which is empty, and compares both. The package
// documentation says what is the same after it, and how it goes on after it was cut off.
//
// The error is a *[NotEmptyError], an *[UnsupportedError], [session.ErrUnfinishedCopy] for a source
// that is itself an unfinished copy, a *[DifferenceError], or that of a Store, which names what
// cannot be read or written. Beside an error the Report says what was done.
func Copy(ctx context.Context, from, to *session.Store, o Options) (Report, error) {
	p, err := newPair(from, to, o)
	if err == nil {
		err = session.CheckCopy(ctx, from.Journal)
	}
	if err != nil {
		return Report{}, err
	}
	mark, at, err := session.LastCopy(ctx, to.Journal)
	if err != nil {
		return Report{}, err
	}
	if mark.ID == "" || !mark.Ended.IsZero() {
		if err := p.checkEmpty(ctx, mark); err != nil {
			return Report{}, err
		}
		mark = session.CopyMark{ID: session.NewID(), Begun: p.now().UTC()}
		if at, err = p.mark(ctx, at, mark); err != nil {
			return Report{}, err
		}
	}
	c := copier{pair: p}
	if err := c.all(ctx); err != nil {
		return c.report, err
	}
	report, err := p.verify(ctx)
	if err != nil {
		return report, err
	}
	mark.Ended = p.now().UTC()
	_, err = p.mark(ctx, at, mark)
	return report, err
}

// Verify compares two Stores, neither of which changes meanwhile, and changes nothing. The error is
// a *[DifferenceError] for the first difference that it finds, an *[UnsupportedError], or that of a
// Store. The marks of copies do not count.
func Verify(ctx context.Context, from, to *session.Store, o Options) (Report, error) {
	p, err := newPair(from, to, o)
	if err != nil {
		return Report{}, err
	}
	return p.verify(ctx)
}

// A pair are the two Stores, with what a copy needs of them.
type pair struct {
	from, to *session.Store
	options  Options

	journal   session.JournalImporter     // of the target; nil: it gives sequences of its own
	lines     session.TranscriptsImporter // of the target
	refs      [2]session.TranscriptsLister
	filesRefs [2]session.FilesLister // nil: the Store has no Files
}

// newPair returns an *UnsupportedError if a Store lacks what a copy needs.
func newPair(from, to *session.Store, o Options) (p *pair, err error) {
	p = &pair{from: from, to: to, options: o}
	for i, s := range []*session.Store{from, to} {
		name := []string{"source", "target"}[i]
		if s == nil || s.Journal == nil {
			return nil, &UnsupportedError{Store: name, Part: "Journal"}
		}
		if s.Transcripts == nil {
			return nil, &UnsupportedError{Store: name, Part: "Transcripts"}
		}
		var ok bool
		if p.refs[i], ok = s.Transcripts.(session.TranscriptsLister); !ok {
			return nil, &UnsupportedError{name, "Transcripts", "TranscriptsLister"}
		}
		if s.Files == nil {
			continue
		}
		if p.filesRefs[i], ok = s.Files.(session.FilesLister); !ok {
			return nil, &UnsupportedError{name, "Files", "FilesLister"}
		}
	}
	var ok bool
	if p.lines, ok = to.Transcripts.(session.TranscriptsImporter); !ok {
		return nil, &UnsupportedError{"target", "Transcripts", "TranscriptsImporter"}
	}
	p.journal, _ = to.Journal.(session.JournalImporter)
	return p, nil
}

func (p *pair) now() time.Time {
	if p.options.Now != nil {
		return p.options.Now()
	}
	return time.Now()
}

func (p *pair) tell(verifying bool, r Report) {
	if p.options.Progress != nil {
		p.options.Progress(Progress{Verifying: verifying, Report: r})
	}
}

// mark appends a mark to the target.
func (p *pair) mark(
	ctx context.Context, after session.Seq, m session.CopyMark,
) (session.Seq, error) {
	at, err := p.to.Journal.Append(ctx, session.CopiesRoot(), after, m.Batch())
	if err != nil {
		return 0, fmt.Errorf("storecopy: marking the target: %w", err)
	}
	return at, nil
}

var errEnough = errors.New("storecopy: enough is named")

// checkEmpty returns a *NotEmptyError if the target has anything. Its marks of copies do not count
// if none has ended.
func (p *pair) checkEmpty(ctx context.Context, mark session.CopyMark) error {
	found := &NotEmptyError{Copied: mark.Ended}
	heads, err := headsOf(ctx, p.to.Journal)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if len(found.Logs) < MaxNamed {
			found.Logs = append(found.Logs, h.Root)
		}
	}
	err = p.eachRef(ctx, 1, nil, func(ref session.Ref, _ place) error {
		if found.Transcripts = append(found.Transcripts, ref); len(found.Transcripts) == MaxNamed {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if len(found.Logs) == 0 && len(found.Transcripts) == 0 && found.Copied.IsZero() {
		return nil
	}
	return found
}

// headsOf returns the heads of all logs but that of the marks of copies.
func headsOf(ctx context.Context, j session.Journal) (heads []session.Head, err error) {
	for h, err := range j.Roots(ctx, session.RootQuery{}) {
		if err != nil {
			return nil, fmt.Errorf("storecopy: listing the logs: %w", err)
		}
		if h.Root != session.CopiesRoot() {
			heads = append(heads, h)
		}
	}
	return heads, nil
}

// A place is what a Store has of a transcript.
type place struct {
	archived time.Time // zero: it is in use, or there are files alone
	files    bool
}

// eachRef calls f with each transcript of the source, 0, or the target, 1, whose lines or files it
// has. It gathers the names before, so that f may change the Store.
func (p *pair) eachRef(
	ctx context.Context, store int, known []session.Key, f func(session.Ref, place) error,
) error {
	places := make(map[session.Ref]place)
	var order []session.Ref
	for ref, err := range p.refs[store].Refs(ctx) {
		if err != nil {
			return fmt.Errorf("storecopy: listing the transcripts: %w", err)
		}
		places[ref] = place{}
		order = append(order, ref)
	}
	transcripts := []*session.Store{p.from, p.to}[store].Transcripts
	for a, err := range transcripts.Archives(ctx, time.Time{}) {
		if err != nil {
			return fmt.Errorf("storecopy: listing the archived transcripts: %w", err)
		}
		places[a.Ref] = place{archived: a.At}
		order = append(order, a.Ref)
	}
	if files := p.filesRefs[store]; files != nil {
		for _, ref := range order {
			known = append(known, ref.Key)
		}
		for ref, err := range files.Refs(ctx, known) {
			if err != nil {
				return fmt.Errorf("storecopy: listing the files: %w", err)
			}
			at, ok := places[ref]
			if at.files = true; !ok {
				order = append(order, ref)
			}
			places[ref] = at
		}
	}
	for _, ref := range order {
		if err := f(ref, places[ref]); err != nil {
			return err
		}
	}
	return nil
}
