package storecopy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A copier makes one copy.
type copier struct {
	*pair
	report Report
	keys   map[session.Key]bool // of sessions that the logs name
}

// all copies everything.
func (c *copier) all(ctx context.Context) error {
	heads, err := headsOf(ctx, c.from.Journal)
	if err != nil {
		return err
	}
	c.keys = make(map[session.Key]bool)
	for _, h := range heads {
		if err := c.log(ctx, h); err != nil {
			return err
		}
		c.report.Logs++
		c.tell(false, c.report)
	}
	known := slices.Collect(maps.Keys(c.keys))
	return c.eachRef(ctx, 0, known, func(ref session.Ref, at place) error {
		if ref.Key.IsZero() {
			c.report.Unknown = append(c.report.Unknown, ref)
			return nil
		}
		err := c.transcript(ctx, ref, at)
		c.tell(false, c.report)
		return err
	})
}

// log copies one log. What the target has of it stays: batches that are all of an earlier attempt.
func (c *copier) log(ctx context.Context, h session.Head) error {
	have, last, err := c.have(ctx, h.Root)
	if err != nil {
		return err
	}
	place, err := c.keepsSequences(ctx, h.Root)
	if err != nil {
		return err
	}
	if !place {
		c.report.Renumbered++
	}
	c.keys[h.Root] = true
	find := newMemberFinder(c.from.Journal, h.Root)
	for b, err := range batches(ctx, c.from.Journal, h.Root) {
		if err != nil {
			return fmt.Errorf("storecopy: %w", err)
		}
		if b.Members, err = find.of(ctx, b); err != nil {
			return err
		}
		c.report.Entries += len(b.Entries)
		c.report.Members += len(b.Members)
		if have > 0 {
			have -= len(b.Entries)
			continue
		}
		if b.Entries[len(b.Entries)-1].Seq == h.Last {
			b.Due = h.Due
		}
		if last, err = c.add(ctx, h.Root, last, b, place); err != nil {
			return fmt.Errorf("storecopy: writing the log of %q: %w", h.Root, err)
		}
	}
	for key := range find.seen {
		c.keys[key] = true
	}
	if have != 0 {
		return differ("the target has what the source does not have", "log %q", h.Root)
	}
	return nil
}

// have returns how many entries the target has of a log, and where they end.
func (c *copier) have(
	ctx context.Context, root session.Key,
) (n int, last session.Seq, err error) {
	for e, err := range c.to.Journal.Read(ctx, root, 0) {
		if err != nil {
			return 0, 0, fmt.Errorf("storecopy: reading the target: %w", err)
		}
		n, last = n+1, e.Seq
	}
	return n, last, nil
}

// keepsSequences reports whether the log of root gets the sequences that it has in the source.
func (c *copier) keepsSequences(ctx context.Context, root session.Key) (bool, error) {
	var before session.Seq
	for e, err := range c.from.Journal.Read(ctx, root, 0) {
		if err != nil {
			return false, fmt.Errorf("storecopy: %w", err)
		}
		if before > 0 && e.Seq != before+1 {
			return false, nil
		}
		before = e.Seq
	}
	return c.journal != nil, nil
}

func (c *copier) add(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch, place bool,
) (session.Seq, error) {
	if !place {
		return c.to.Journal.Append(ctx, root, after, b)
	}
	return c.journal.Import(ctx, root, after, b.Entries[0].Seq, b)
}

// transcript copies the lines and files of a transcript, and archives it last: one that is archived
// in the target is whole.
func (c *copier) transcript(ctx context.Context, ref session.Ref, at place) error {
	archived, end, err := c.endOf(ctx, ref)
	if err != nil {
		return err
	}
	if archived {
		return nil
	}
	if err := c.copyLines(ctx, ref, end); err != nil {
		return err
	}
	if at.files {
		if err := c.copyFiles(ctx, ref); err != nil {
			return err
		}
	}
	c.report.Transcripts++
	if at.archived.IsZero() {
		return nil
	}
	c.report.Archived++
	return c.archive(ctx, ref, at.archived)
}

func (c *copier) archive(ctx context.Context, ref session.Ref, at time.Time) error {
	if c.to.Files != nil {
		if err := c.to.Files.Archive(ctx, ref, at); err != nil {
			return fmt.Errorf("storecopy: archiving files in the target: %w", err)
		}
	}
	if _, err := c.to.Transcripts.Archive(ctx, ref, at); err != nil {
		return fmt.Errorf("storecopy: archiving a transcript in the target: %w", err)
	}
	return nil
}

// endOf returns where a transcript ends in the target, and whether it is archived there.
func (c *copier) endOf(
	ctx context.Context, ref session.Ref,
) (archived bool, end session.Pos, err error) {
	for line, err := range c.to.Transcripts.Read(ctx, ref, session.LineQuery{Last: 1}) {
		if errors.Is(err, session.ErrArchived) {
			return true, 0, nil
		}
		if err != nil {
			return false, 0, fmt.Errorf("storecopy: reading the target: %w", err)
		}
		end = line.Pos
	}
	return false, end, nil
}

// What is imported at once: so many lines, of so many bytes, but always a line.
const (
	pageLines = 256
	pageBytes = 1 << 20
)

// copyLines copies the lines of a transcript behind a position.
func (c *copier) copyLines(ctx context.Context, ref session.Ref, end session.Pos) error {
	var page []session.Line
	size := 0
	write := func() (err error) {
		if len(page) == 0 {
			return nil
		}
		if end, err = c.lines.Import(ctx, ref, end, page...); err != nil {
			return fmt.Errorf("storecopy: writing a transcript: %w", err)
		}
		c.report.Lines += len(page)
		page, size = nil, 0
		return nil
	}
	q := session.LineQuery{After: end, Archived: true}
	for line, err := range c.from.Transcripts.Read(ctx, ref, q) {
		if err != nil {
			return fmt.Errorf("storecopy: %w", err)
		}
		text, err := line.Message.AppendJSON(nil)
		if err != nil {
			return lineError(ref, line, err)
		}
		if size += len(text); size > pageBytes || len(page) == pageLines {
			if err := write(); err != nil {
				return err
			}
			size = len(text)
		}
		page = append(page, line)
	}
	return write()
}

func lineError(ref session.Ref, line session.Line, err error) error {
	return fmt.Errorf("storecopy: transcript %q of %q, the line at %d: %w",
		ref.SessionID, ref.Key, line.Pos, err)
}

// copyFiles copies the files of a transcript that the target does not have.
func (c *copier) copyFiles(ctx context.Context, ref session.Ref) error {
	if c.to.Files == nil {
		return &UnsupportedError{Store: "target", Part: "Files"}
	}
	have, err := filesOf(ctx, c.to.Files, ref)
	if err != nil {
		return err
	}
	all, err := filesOf(ctx, c.from.Files, ref)
	if err != nil {
		return err
	}
	for _, f := range all {
		if !slices.Contains(have, f) {
			if err := c.copyFile(ctx, ref, f); err != nil {
				return err
			}
		}
		c.report.Files++
		c.report.Bytes += f.Size
	}
	return nil
}

func (c *copier) copyFile(ctx context.Context, ref session.Ref, f session.File) (err error) {
	r, err := c.from.Files.Open(ctx, ref, f.Hash)
	if err != nil {
		return fmt.Errorf("storecopy: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := c.to.Files.Put(ctx, ref, r, f); err != nil {
		return fmt.Errorf("storecopy: copying a file: %w", err)
	}
	return nil
}

// filesOf returns the files of a transcript, sorted.
func filesOf(
	ctx context.Context, files session.Files, ref session.Ref,
) (all []session.File, err error) {
	if files == nil {
		return nil, nil
	}
	for f, err := range files.List(ctx, ref) {
		if err != nil {
			return nil, fmt.Errorf("storecopy: listing files: %w", err)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b session.File) int { return compareText(a.Hash, b.Hash) })
	return all, nil
}
