package sessiontest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

func checkFileList(p *fileProbe) {
	s := p.open()
	var all [][]byte
	for i := range 30 {
		all = append(all, fileBytes(fmt.Sprint("file", i), 10+i))
		putFile(p, s, refA, all[i])
		putFile(p, s, refB, fileBytes(fmt.Sprint("other", i), 10))
	}
	wantFiles(p, s, refA, all...)
}

func checkFilesApart(p *fileProbe) {
	s := p.open()
	refs := []session.Ref{
		refA, refB,
		{Key: refA.Key, SessionID: refB.SessionID},
		{Key: refB.Key, SessionID: refA.SessionID},
		{Key: refA.Key, SessionID: "a"},
		{Key: refA.Key, SessionID: "A"},
		{Key: refA.Key, SessionID: "a.files"},
		{Key: refA.Key, SessionID: "a.jsonl.deleted.b"},
	}
	same := fileBytes("same", 100)
	of := func(i int) []byte { return fileBytes(fmt.Sprint("of", i), 100) }
	for i, ref := range refs {
		putFile(p, s, ref, of(i))
		putFile(p, s, ref, same)
	}
	s = p.reopen()
	for i, ref := range refs {
		wantFiles(p, s, ref, of(i), same)
		wantNoFile(p, s, ref, of((i+1)%len(refs)))
	}
}

// archiveFiles archives the files of a transcript. The rule fails if Archive does.
func archiveFiles(p *fileProbe, s session.Files, ref session.Ref, at time.Time) {
	p.must(fmt.Sprintf("archive %v", ref), s.Archive(p.ctx, ref, at))
}

// wantArchived fails the rule unless Put refuses bytes as those of an archived transcript.
func wantArchived(p *fileProbe, s session.Files, ref session.Ref, data []byte) {
	_, err := s.Put(p.ctx, ref, bytes.NewReader(data), session.File{})
	p.wantIs("put for an archived transcript", err, session.ErrArchived)
}

func checkFileArchive(p *fileProbe) {
	s := p.open()
	x, y, z := fileBytes("x", 100), fileBytes("y", 100_000), fileBytes("z", 10)
	putFile(p, s, refA, x)
	putFile(p, s, refA, y)
	putFile(p, s, refB, z)
	archiveFiles(p, s, refA, kitNoon)
	wantFiles(p, s, refA, x, y)
	wantNoFile(p, s, refA, z)
	putFile(p, s, refB, x)
	wantFiles(p, s, refB, x, z)
}

func checkFileArchived(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100), fileBytes("y", 100)
	putFile(p, s, refA, x)
	archiveFiles(p, s, refA, kitNoon)
	wantArchived(p, s, refA, x)
	wantArchived(p, s, refA, y)
	wantFiles(p, s, refA, x)
	again := session.Ref{Key: refA.Key, SessionID: refB.SessionID}
	putFile(p, s, again, y)
	wantFiles(p, s, again, y)
}

func checkFileArchiveAgain(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100)
	putFile(p, s, refA, x)
	for _, later := range []time.Duration{0, 0, time.Hour, -time.Hour} {
		archiveFiles(p, s, refA, kitNoon.Add(later))
		wantFiles(p, s, refA, x)
	}
}

func checkFileArchiveNothing(p *fileProbe) {
	s := p.open()
	archiveFiles(p, s, refA, kitNoon)
	wantFiles(p, s, refA)
	x := fileBytes("x", 100)
	putFile(p, s, refA, x)
	wantFiles(p, s, refA, x)
}

func checkFileArchiveDurable(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100)
	putFile(p, s, refA, x)
	archiveFiles(p, s, refA, kitNoon)
	s = p.reopen()
	wantFiles(p, s, refA, x)
	wantArchived(p, s, refA, fileBytes("y", 10))
}

// removeFiles removes the files of a transcript. The rule fails if Remove does.
func removeFiles(p *fileProbe, s session.Files, ref session.Ref) {
	p.must(fmt.Sprintf("remove %v", ref), s.Remove(p.ctx, ref))
}

func checkFileRemove(p *fileProbe) {
	s := p.open()
	x, y := fileBytes("x", 100), fileBytes("y", 100)
	removeFiles(p, s, refA)
	putFile(p, s, refA, x)
	putFile(p, s, refA, y)
	for range 2 {
		removeFiles(p, s, refA)
		wantFiles(p, s, refA)
		wantNoFile(p, s, refA, x)
	}
	s = p.reopen()
	wantFiles(p, s, refA)
	putFile(p, s, refA, y)
	wantFiles(p, s, refA, y)
}

func checkFileRemoveArchived(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100)
	putFile(p, s, refA, x)
	archiveFiles(p, s, refA, kitNoon)
	removeFiles(p, s, refA)
	wantFiles(p, s, refA)
	wantNoFile(p, s, refA, x)
	wantFiles(p, p.reopen(), refA)
}

func checkFileRemoveAlone(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 100)
	others := []session.Ref{refB, {Key: refA.Key, SessionID: refB.SessionID}}
	for _, ref := range append(others, refA) {
		putFile(p, s, ref, x)
	}
	removeFiles(p, s, refA)
	for _, ref := range others {
		wantFiles(p, s, ref, x)
	}
}

func checkFileEarlyStop(p *fileProbe) {
	s := p.open()
	for i := range 3 {
		putFile(p, s, refA, fileBytes(fmt.Sprint("file", i), 10))
	}
	calls := 0
	s.List(p.ctx, refA)(func(session.File, error) bool {
		calls++
		putFile(p, s, refA, fileBytes("inside", 10))
		return false
	})
	if calls != 1 {
		p.fail("list went on %d times after it was told to stop", calls-1)
	}
	putFile(p, s, refA, fileBytes("outside", 10))
}

// wantAllFail fails the rule unless every method returns an error that is target.
func wantAllFail(
	ctx context.Context, p *fileProbe, s session.Files, what string, ref session.Ref, target error,
) {
	data := fileBytes("late", 10)
	_, err := s.Put(ctx, ref, bytes.NewReader(data), session.File{})
	p.wantIs("put "+what, err, target)
	_, err = s.Open(ctx, ref, fileOf(data).Hash)
	p.wantIs("open "+what, err, target)
	p.wantIs("archive "+what, s.Archive(ctx, ref, kitNoon), target)
	p.wantIs("restore "+what, s.Restore(ctx, ref), target)
	p.wantIs("remove "+what, s.Remove(ctx, ref), target)
	n := 0
	for file, err := range s.List(ctx, ref) {
		p.wantIs("list "+what, err, target)
		if file != (session.File{}) {
			p.fail("list %s yielded %+v beside its error", what, file)
		}
		n++
	}
	if n != 1 {
		p.fail("list %s yielded %d times, want once", what, n)
	}
}

func checkInvalidFile(p *fileProbe) {
	s := p.open()
	for _, ref := range []session.Ref{
		{},
		{Key: rootA},
		{SessionID: refA.SessionID},
		{Key: session.BindingsRoot(), SessionID: refA.SessionID},
		{Key: rootA, SessionID: "../up"},
		{Key: rootA, SessionID: "a/b"},
		{Key: rootA, SessionID: "a\x00"},
		{Key: rootA, SessionID: strings.Repeat("a", 129)},
	} {
		wantAllFail(p.ctx, p, s, fmt.Sprintf("of %+v", ref), ref, session.ErrInvalidKey)
	}
	x := fileBytes("x", 10)
	hash := putFile(p, s, refA, x).Hash
	for _, bad := range []string{
		"", "x", "../" + hash[3:], strings.ToUpper(hash), hash[1:], hash + "0", " " + hash[1:],
	} {
		_, err := s.Open(p.ctx, refA, bad)
		p.wantIs(fmt.Sprintf("open %q", bad), err, session.ErrInvalidKey)
		if bad != "" {
			_, err = s.Put(p.ctx, refA, bytes.NewReader(x), session.File{Hash: bad})
			p.wantIs(fmt.Sprintf("put as %q", bad), err, session.ErrInvalidKey)
		}
	}
	_, err := s.Put(p.ctx, refA, bytes.NewReader(x), session.File{Size: -1})
	p.wantIs("put a negative size", err, session.ErrInvalidKey)
	wantFiles(p, s, refA, x)
}

func checkFileContext(p *fileProbe) {
	s := p.open()
	x := fileBytes("x", 10)
	putFile(p, s, refA, x)
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	wantAllFail(ctx, p, s, "with a ctx that is done", refA, context.Canceled)
	wantFiles(p, s, refA, x)
	putFile(p, s, refA, fileBytes("y", 10))
}

func checkFileContextMeanwhile(p *fileProbe) {
	s := p.open()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	x, n := fileBytes("x", 300_000), 0
	_, err := s.Put(ctx, refA, spyReader{bytes.NewReader(x), 100_000, func() {
		if n++; n == 2 {
			cancel()
		}
	}}, session.File{})
	p.wantIs("put with a ctx that is done meanwhile", err, context.Canceled)
	wantFiles(p, s, refA)
}

func checkFilesClosed(p *fileProbe) {
	s := p.open()
	c, ok := s.(io.Closer)
	if !ok {
		return
	}
	putFile(p, s, refA, fileBytes("x", 10))
	p.must("close", c.Close())
	p.opened = nil
	wantAllFail(p.ctx, p, s, "after close", refA, session.ErrClosed)
}
