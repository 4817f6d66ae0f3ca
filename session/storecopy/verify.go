package storecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

func compareText(a, b string) int { return strings.Compare(a, b) }

// A verifier compares the two Stores of a pair.
type verifier struct {
	*pair
	report Report
	keys   map[session.Key]bool // of sessions that the logs name
}

// verify compares everything.
func (p *pair) verify(ctx context.Context) (Report, error) {
	v := verifier{pair: p, keys: make(map[session.Key]bool)}
	err := v.logs(ctx)
	if err == nil {
		err = v.transcripts(ctx)
	}
	return v.report, err
}

// logs compares the logs of both, and gathers the keys in them.
func (v *verifier) logs(ctx context.Context) error {
	heads, err := headsOf(ctx, v.from.Journal)
	if err != nil {
		return err
	}
	theirs, err := headsOf(ctx, v.to.Journal)
	if err != nil {
		return err
	}
	copies := make(map[session.Key]session.Head, len(theirs))
	for _, h := range theirs {
		copies[h.Root] = h
	}
	for _, h := range heads {
		c, ok := copies[h.Root]
		switch delete(copies, h.Root); {
		case !ok:
			return differ("the copy does not have it", "log %q", h.Root)
		case !c.Due.Equal(h.Due) || c.Due.IsZero() != h.Due.IsZero():
			return differ(fmt.Sprintf("it is due at %v and not at %v", c.Due, h.Due), "log %q", h.Root)
		}
		if err := v.log(ctx, h.Root); err != nil {
			return err
		}
		v.report.Logs++
		v.tell(true, v.report)
	}
	for root := range copies {
		return differ("the original does not have it", "log %q", root)
	}
	return nil
}

// log compares the batches of one log, and the members that stand in them.
func (v *verifier) log(ctx context.Context, root session.Key) error {
	v.keys[root] = true
	find := newMemberFinder(v.from.Journal, root)
	next, stop := iter.Pull2(batches(ctx, v.to.Journal, root))
	defer stop()
	var before session.Seq
	gaps, moved := false, false
	for b, err := range batches(ctx, v.from.Journal, root) {
		if err != nil {
			return fmt.Errorf("storecopy: %w", err)
		}
		c, err, ok := next()
		if err != nil {
			return fmt.Errorf("storecopy: reading the copy: %w", err)
		}
		if !ok {
			return differ("the copy ends before it", "log %q, entry %d", root, b.Entries[0].Seq)
		}
		if err := compareBatches(root, b, c); err != nil {
			return err
		}
		for i, e := range b.Entries {
			gaps = gaps || before > 0 && e.Seq != before+1
			moved = moved || e.Seq != c.Entries[i].Seq
			before = e.Seq
		}
		if _, err := find.of(ctx, b); err != nil {
			return err
		}
		v.report.Entries += len(b.Entries)
	}
	if c, err, ok := next(); ok {
		if err != nil {
			return fmt.Errorf("storecopy: reading the copy: %w", err)
		}
		return differ("the original ends before it", "log %q, entry %d", root, c.Entries[0].Seq)
	}
	if moved && !gaps && v.journal != nil {
		return differ("its entries have other sequences", "log %q", root)
	}
	if moved {
		v.report.Renumbered++
	}
	return v.members(ctx, root, find.seen)
}

// compareBatches compares two batches but for their sequences.
func compareBatches(root session.Key, b, c session.Batch) error {
	at := b.Entries[0].Seq
	if b.ID != c.ID {
		return differ(fmt.Sprintf("it is of the batch %q and not of %q", c.ID, b.ID),
			"log %q, entry %d", root, at)
	}
	if len(b.Entries) != len(c.Entries) {
		return differ(fmt.Sprintf("its batch has %d entries and not %d", len(c.Entries), len(b.Entries)),
			"log %q, entry %d", root, at)
	}
	for i := range b.Entries {
		if !bytes.Equal(b.Entries[i].Payload.(session.Raw), c.Entries[i].Payload.(session.Raw)) {
			return differ("its payload is another one", "log %q, entry %d", root, b.Entries[i].Seq)
		}
	}
	return nil
}

// members compares which of the keys in a log lead to it.
func (v *verifier) members(
	ctx context.Context, root session.Key, keys map[session.Key]bool,
) error {
	for key, is := range keys {
		v.keys[key] = true
		if is {
			v.report.Members++
		}
		found, err := leadsTo(ctx, v.to.Journal, key, root)
		switch {
		case err != nil:
			return err
		case is && !found:
			return differ(fmt.Sprintf("%q does not lead to it", key), "log %q", root)
		}
	}
	return nil
}

// transcripts compares the transcripts of both, and their files.
func (v *verifier) transcripts(ctx context.Context) error {
	known := slices.Collect(maps.Keys(v.keys))
	copies := make(map[session.Ref]place)
	err := v.eachRef(ctx, 1, known, func(ref session.Ref, at place) error {
		copies[ref] = at
		return nil
	})
	if err != nil {
		return err
	}
	err = v.eachRef(ctx, 0, known, func(ref session.Ref, at place) error {
		if ref.Key.IsZero() {
			v.report.Unknown = append(v.report.Unknown, ref)
			return nil
		}
		c := copies[ref]
		delete(copies, ref)
		n, err := v.transcript(ctx, ref)
		switch {
		case err != nil:
			return err
		case n > 0 && !c.archived.Equal(at.archived):
			return differ(fmt.Sprintf("it was archived at %v and not at %v", c.archived, at.archived),
				"transcript %q of %q", ref.SessionID, ref.Key)
		case n > 0 && !at.archived.IsZero():
			v.report.Archived++
		}
		v.report.Transcripts++
		v.report.Lines += n
		v.tell(true, v.report)
		return nil
	})
	if err != nil {
		return err
	}
	for ref := range copies {
		return differ("the original does not have it", "transcript %q of %q", ref.SessionID, ref.Key)
	}
	return nil
}

// transcript compares the lines and the files of one transcript, and returns how many lines it has.
func (v *verifier) transcript(ctx context.Context, ref session.Ref) (n int, err error) {
	q := session.LineQuery{Archived: true}
	next, stop := iter.Pull2(v.to.Transcripts.Read(ctx, ref, q))
	defer stop()
	fault := func(at session.Pos, reason string) error {
		return differ(reason, "transcript %q of %q, the line at %d", ref.SessionID, ref.Key, at)
	}
	for line, err := range v.from.Transcripts.Read(ctx, ref, q) {
		if err != nil {
			return n, fmt.Errorf("storecopy: %w", err)
		}
		c, err, ok := next()
		switch {
		case err != nil:
			return n, fmt.Errorf("storecopy: reading the copy: %w", err)
		case !ok:
			return n, fault(line.Pos, "the copy ends before it")
		case c.Pos != line.Pos:
			return n, fault(line.Pos, fmt.Sprintf("it is at %d", c.Pos))
		}
		mine, err1 := line.Message.AppendJSON(nil)
		theirs, err2 := c.Message.AppendJSON(nil)
		if err := errors.Join(err1, err2); err != nil {
			return n, lineError(ref, line, err)
		}
		if !bytes.Equal(mine, theirs) {
			return n, fault(line.Pos, "it is another one")
		}
		n++
	}
	if c, err, ok := next(); err != nil {
		return n, fmt.Errorf("storecopy: reading the copy: %w", err)
	} else if ok {
		return n, fault(c.Pos, "the original ends before it")
	}
	return n, v.files(ctx, ref)
}

// files compares the files of a transcript, and reads them in both Stores, which compare the bytes
// with the hash.
func (v *verifier) files(ctx context.Context, ref session.Ref) error {
	all, err := filesOf(ctx, v.from.Files, ref)
	if err != nil {
		return err
	}
	copies, err := filesOf(ctx, v.to.Files, ref)
	if err != nil {
		return err
	}
	if !slices.Equal(all, copies) {
		return differ(fmt.Sprintf("there are %v and not %v", copies, all),
			"files of transcript %q of %q", ref.SessionID, ref.Key)
	}
	for _, f := range all {
		for _, files := range []session.Files{v.from.Files, v.to.Files} {
			if err := readThrough(ctx, files, ref, f); err != nil {
				return err
			}
		}
		v.report.Files++
		v.report.Bytes += f.Size
	}
	return nil
}

// readThrough returns why the bytes of a file cannot be read, or are not those of its name.
func readThrough(
	ctx context.Context, files session.Files, ref session.Ref, f session.File,
) (err error) {
	r, err := files.Open(ctx, ref, f.Hash)
	if err != nil {
		return fmt.Errorf("storecopy: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	in, err := session.NewFileReader(ctx, r, f)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil {
		_, err = in.File()
	}
	if err != nil {
		return fmt.Errorf("storecopy: file %s of transcript %q of %q: %w",
			f.Hash, ref.SessionID, ref.Key, err)
	}
	return nil
}
