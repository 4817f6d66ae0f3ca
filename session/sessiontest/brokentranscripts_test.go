package sessiontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A shelf is what one call of a TranscriptsOpenFunc returns: transcripts in memory with some methods replaced.
type shelf struct {
	inner   session.Transcripts
	nth     int // how many shelves were opened before this one
	append  func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error)
	read    func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error]
	archive func(ctx context.Context, ref session.Ref, at time.Time) (string, error)
	locate  func(ref session.Ref) string
}

func (s *shelf) Append(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
	if s.append != nil {
		return s.append(ctx, ref, after, m...)
	}
	return s.inner.Append(ctx, ref, after, m...)
}

func (s *shelf) Read(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
	if s.read != nil {
		return s.read(ctx, ref, w)
	}
	return s.inner.Read(ctx, ref, w)
}

func (s *shelf) Archive(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
	if s.archive != nil {
		return s.archive(ctx, ref, at)
	}
	return s.inner.Archive(ctx, ref, at)
}

func (s *shelf) Locate(ref session.Ref) string {
	if s.locate != nil {
		return s.locate(ref)
	}
	return s.inner.Locate(ref)
}

// end returns where a transcript ends.
func (s *shelf) end(ref session.Ref) (last session.Pos) {
	for line, err := range s.inner.Read(context.Background(), ref, session.LineQuery{}) {
		if err != nil {
			return 0
		}
		last = line.Pos
	}
	return last
}

// change replaces what Read yields after it was read.
func (s *shelf) change(f func(ref session.Ref, w session.LineQuery, lines []session.Line) []session.Line) {
	s.read = func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		return changed(s.inner.Read(ctx, ref, w), func(all []session.Line) []session.Line {
			return f(ref, w, all)
		})
	}
}

// brokenTranscripts break one rule each.
var brokenTranscripts = map[string]func(s *shelf){
	"empty":           func(s *shelf) { s.read = refusesUnknown(s) },
	"order":           func(s *shelf) { s.change(swapsLines) },
	"after":           func(s *shelf) { s.read = wrapsAround(s) },
	"last":            func(s *shelf) { s.read = takesFirst(s) },
	"position":        func(s *shelf) { s.append = givesTickets(s) },
	"stale":           func(s *shelf) { s.append = takesSecond(s) },
	"ahead":           func(s *shelf) { s.append = takesLinesAhead(s) },
	"one winner":      func(s *shelf) { s.append = looksThenWrites(s) },
	"no messages":     func(s *shelf) { s.append = nothingIsFine(s) },
	"message":         func(s *shelf) { s.append = rewrites(s, compactRaw) },
	"newer":           func(s *shelf) { s.append = rewrites(s, knownOnly) },
	"visible":         func(s *shelf) { hidesFromTheSecond(s) },
	"durable":         func(s *shelf) { s.append = beginsAgain(s) },
	"apart":           func(s *shelf) { s.read = mixesIDs(s) },
	"at once":         func(s *shelf) { s.append = oneAtATime(s) },
	"archive":         func(s *shelf) { s.archive = otherName(s) },
	"archive again":   func(s *shelf) { s.archive = newNames(s) },
	"archive durable": func(s *shelf) { s.archive = forgetsName(s) },
	"archived":        func(s *shelf) { s.append = swallowsLate(s) },
	"archive nothing": func(s *shelf) { s.archive = missesNothing(s) },
	"locate":          func(s *shelf) { s.locate = func(r session.Ref) string { return "/dir/" + r.SessionID + ".jsonl" } },
	"early stop":      func(s *shelf) { s.read = keepsYielding(s) },
	"invalid":         func(s *shelf) { s.read = takesNegative(s) },
	"context":         func(s *shelf) { s.archive = archivesAnyway(s) },
	"closed":          nil, // see below
}

type closableShelf struct{ *shelf }

func (closableShelf) Close() error { return nil }

func TestBrokenTranscripts(t *testing.T) {
	fresh := func() maker[*shelf] {
		inner := session.NewMemory().Transcripts
		return func(nth int) *shelf { return &shelf{inner: inner, nth: nth} }
	}
	wrap := func(rule string, s *shelf) session.Transcripts {
		if rule == "closed" {
			return closableShelf{s}
		}
		return s
	}
	breakEach(t, transcriptRules, brokenTranscripts, fresh, wrap)
}

type (
	appendLinesFunc = func(context.Context, session.Ref, session.Pos, ...session.Message) (session.Pos, error)
	readLinesFunc   = func(context.Context, session.Ref, session.LineQuery) iter.Seq2[session.Line, error]
	archiveFunc     = func(context.Context, session.Ref, time.Time) (string, error)
)

func refusesUnknown(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		if w.After > 0 && w.Last > 0 && s.end(ref) == 0 {
			return func(yield func(session.Line, error) bool) { yield(session.Line{}, session.ErrNotFound) }
		}
		return s.inner.Read(ctx, ref, w)
	}
}

func swapsLines(_ session.Ref, _ session.LineQuery, lines []session.Line) []session.Line {
	if len(lines) >= 20 {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return lines
}

func wrapsAround(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		if w.After > s.end(ref)+100 {
			w.After = 0
		}
		return s.inner.Read(ctx, ref, w)
	}
}

func takesFirst(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		return func(yield func(session.Line, error) bool) {
			n := 0
			for line, err := range s.inner.Read(ctx, ref, session.LineQuery{After: w.After, Last: min(w.Last, 0)}) {
				if n++; w.Last > 0 && n > w.Last || !yield(line, err) {
					return
				}
			}
		}
	}
}

func givesTickets(s *shelf) appendLinesFunc {
	const ticket = 1_000_000
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		pos, err := s.inner.Append(ctx, ref, after%ticket, m...)
		if err == nil && len(m) == 1 && m[0].Text == "y/0" {
			pos += ticket
		}
		return pos, err
	}
}

func takesSecond(s *shelf) appendLinesFunc {
	var n atomic.Int32
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		if end := s.end(ref); n.Load() == 2 && after+2 == end && len(m) > 0 {
			after = end
		}
		pos, err := s.inner.Append(ctx, ref, after, m...)
		if err == nil {
			n.Add(1)
		}
		return pos, err
	}
}

func takesLinesAhead(s *shelf) appendLinesFunc {
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		if end := s.end(ref); end > 0 && after == end+1 {
			after = end
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func looksThenWrites(s *shelf) appendLinesFunc {
	var mu sync.Mutex
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		if s.end(ref) != after {
			return s.inner.Append(ctx, ref, after, m...)
		}
		dawdle()
		mu.Lock()
		defer mu.Unlock()
		return s.inner.Append(ctx, ref, s.end(ref), m...)
	}
}

func nothingIsFine(s *shelf) appendLinesFunc {
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		if len(m) == 0 {
			return after, nil
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func rewrites(s *shelf, f func(session.Message) session.Message) appendLinesFunc {
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		m = slices.Clone(m)
		for i := range m {
			m[i] = f(m[i])
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func compactRaw(m session.Message) session.Message {
	var b bytes.Buffer
	if json.Compact(&b, m.Raw) == nil {
		m.Raw = b.Bytes()
	}
	return m
}

func knownOnly(m session.Message) session.Message {
	return session.Message{
		ID: m.ID, Role: m.Role, Text: m.Text, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, Failed: m.Failed, Internal: m.Internal,
		Time: m.Time, Model: m.Model, Usage: m.Usage, Raw: m.Raw, Discard: m.Discard,
	}
}

// hidesFromTheSecond reads without the last line while somebody else reads.
func hidesFromTheSecond(s *shelf) {
	var reading atomic.Int32
	s.change(func(_ session.Ref, _ session.LineQuery, lines []session.Line) []session.Line {
		defer reading.Add(-1)
		if reading.Add(1) > 1 && len(lines) > 0 {
			lines = lines[:len(lines)-1]
		}
		dawdle()
		return lines
	})
}

func beginsAgain(s *shelf) appendLinesFunc {
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		if s.nth > 0 && after == 0 {
			after = s.end(ref)
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func mixesIDs(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		if ref.SessionID != ".." {
			ref.SessionID, _, _ = strings.Cut(ref.SessionID, ".")
		}
		return s.inner.Read(ctx, ref, w)
	}
}

func oneAtATime(s *shelf) appendLinesFunc {
	var g gate[session.Ref]
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		others, leave := g.enter(ref)
		defer leave()
		if others {
			return 0, errors.New("another transcript is being written")
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func otherName(s *shelf) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		name, _, _ = strings.Cut(name, ".deleted.")
		return name, err
	}
}

func newNames(s *shelf) archiveFunc {
	done := make(map[session.Ref]bool)
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		if done[ref] {
			name = session.ArchiveName(ref.SessionID, at)
		}
		done[ref] = true
		return name, err
	}
}

func forgetsName(s *shelf) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		if s.nth > 0 {
			name = ""
		}
		return name, err
	}
}

func swallowsLate(s *shelf) appendLinesFunc {
	return func(ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message) (session.Pos, error) {
		pos, err := s.inner.Append(ctx, ref, after, m...)
		if errors.Is(err, session.ErrArchived) {
			return after + session.Pos(len(m)), nil
		}
		return pos, err
	}
}

func missesNothing(s *shelf) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		if err == nil && name == "" {
			err = session.ErrNotFound
		}
		return name, err
	}
}

func keepsYielding(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		return deaf(s.inner.Read(ctx, ref, w))
	}
}

func takesNegative(s *shelf) readLinesFunc {
	return func(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
		w.Last = max(w.Last, 0)
		return s.inner.Read(ctx, ref, w)
	}
}

func archivesAnyway(s *shelf) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		return s.inner.Archive(context.WithoutCancel(ctx), ref, at)
	}
}
