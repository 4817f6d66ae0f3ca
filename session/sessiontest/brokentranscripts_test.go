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

// A brokenTranscript is what one call of a TranscriptsOpenFunc returns: transcripts in memory with
// some methods replaced.
type brokenTranscript struct {
	inner   session.Transcripts
	nth     int // how many shelves were opened before this one
	append  appendLinesFunc
	read    readLinesFunc
	archive archiveFunc
	remove  removeFunc
	locate  func(ref session.Ref) string

	restore  removeFunc
	archives func(ctx context.Context, before time.Time) iter.Seq2[session.Archived, error]
}

func (s *brokenTranscript) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if s.append != nil {
		return s.append(ctx, ref, after, m...)
	}
	return s.inner.Append(ctx, ref, after, m...)
}

func (s *brokenTranscript) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	if s.read != nil {
		return s.read(ctx, ref, q)
	}
	return s.inner.Read(ctx, ref, q)
}

func (s *brokenTranscript) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (string, error) {
	if s.archive != nil {
		return s.archive(ctx, ref, at)
	}
	return s.inner.Archive(ctx, ref, at)
}

func (s *brokenTranscript) Restore(ctx context.Context, ref session.Ref) error {
	if s.restore != nil {
		return s.restore(ctx, ref)
	}
	return s.inner.Restore(ctx, ref)
}

func (s *brokenTranscript) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	if s.archives != nil {
		return s.archives(ctx, before)
	}
	return s.inner.Archives(ctx, before)
}

func (s *brokenTranscript) Remove(ctx context.Context, ref session.Ref) error {
	if s.remove != nil {
		return s.remove(ctx, ref)
	}
	return s.inner.Remove(ctx, ref)
}

func (s *brokenTranscript) Locate(ref session.Ref) string {
	if s.locate != nil {
		return s.locate(ref)
	}
	return s.inner.Locate(ref)
}

// end returns where a transcript ends.
func (s *brokenTranscript) end(ref session.Ref) (last session.Pos) {
	for line, err := range s.inner.Read(context.Background(), ref, session.LineQuery{}) {
		if err != nil {
			return 0
		}
		last = line.Pos
	}
	return last
}

// change replaces what Read yields after it was read.
func (s *brokenTranscript) change(
	f func(ref session.Ref, q session.LineQuery, lines []session.Line) []session.Line,
) {
	s.read = func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		return changeSeq(s.inner.Read(ctx, ref, q), func(all []session.Line) []session.Line {
			return f(ref, q, all)
		})
	}
}

// brokenTranscripts break one rule each.
var brokenTranscripts = map[string]func(s *brokenTranscript){
	"empty":           func(s *brokenTranscript) { s.read = refusesUnknown(s) },
	"order":           func(s *brokenTranscript) { s.change(swapsLines) },
	"after":           func(s *brokenTranscript) { s.read = wrapsAround(s) },
	"last":            func(s *brokenTranscript) { s.read = takesFirst(s) },
	"position":        func(s *brokenTranscript) { s.append = givesTickets(s) },
	"stale":           func(s *brokenTranscript) { s.append = takesSecond(s) },
	"ahead":           func(s *brokenTranscript) { s.append = takesLinesAhead(s) },
	"one winner":      func(s *brokenTranscript) { s.append = looksThenWrites(s) },
	"no messages":     func(s *brokenTranscript) { s.append = nothingIsFine(s) },
	"message":         func(s *brokenTranscript) { s.append = rewrites(s, compactRaw) },
	"newer":           func(s *brokenTranscript) { s.append = rewrites(s, knownOnly) },
	"visible":         func(s *brokenTranscript) { hidesFromTheSecond(s) },
	"durable":         func(s *brokenTranscript) { s.append = beginsAgain(s) },
	"apart":           func(s *brokenTranscript) { s.read = mixesIDs(s) },
	"at once":         func(s *brokenTranscript) { s.append = oneAtATime(s) },
	"archive":         func(s *brokenTranscript) { s.archive = otherName(s) },
	"archive again":   func(s *brokenTranscript) { s.archive = newNames(s) },
	"archive durable": func(s *brokenTranscript) { s.archive = forgetsName(s) },
	"archived":        func(s *brokenTranscript) { s.append = swallowsLate(s) },
	"archive nothing": func(s *brokenTranscript) { s.archive = missesNothing(s) },
	"read archived":   func(s *brokenTranscript) { s.read = passesOverArchived(s) },
	"archived lines":  func(s *brokenTranscript) { s.read = yieldsWholeArchive(s) },
	"restore":         func(s *brokenTranscript) { s.restore = addsLine(s) },
	"restore durable": restoresForOne,
	"restore live":    func(s *brokenTranscript) { s.restore = refusesLive(s) },
	"restore again":   func(s *brokenTranscript) { s.restore = restoresOnce(s) },
	"archives":        func(s *brokenTranscript) { s.archives = allArchives(s) },
	"remove":          func(s *brokenTranscript) { s.remove = removesNothing(s) },
	"remove live":     func(s *brokenTranscript) { s.remove = archivesFirst(s) },
	"locate": func(s *brokenTranscript) {
		s.locate = func(r session.Ref) string { return "/dir/" + r.SessionID + ".jsonl" }
	},
	"early stop":   func(s *brokenTranscript) { s.read = keepsYielding(s) },
	"invalid":      func(s *brokenTranscript) { s.read = takesNegative(s) },
	"invalid line": func(s *brokenTranscript) { s.append = leavesOutInvalid(s) },
	"large line":   func(s *brokenTranscript) { s.append = cutsLines(s, batchBytes/2, batchBytes) },
	"long line":    func(s *brokenTranscript) { s.append = cutsLines(s, batchBytes, 2*batchBytes) },
	"context":      func(s *brokenTranscript) { s.archive = archivesAnyway(s) },
	"closed":       nil, // see below
}

type closableTranscript struct{ *brokenTranscript }

func (closableTranscript) Close() error { return nil }

// cutsLines keeps only a part of texts from one length to another.
func cutsLines(s *brokenTranscript, from, to int) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		m = slices.Clone(m)
		for i := range m {
			if n := len(m[i].Text); n > from-lineRoom/2 && n < to-lineRoom/2 {
				m[i].Text = m[i].Text[:n/2]
			}
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func TestBrokenTranscripts(t *testing.T) {
	batchBytes = 1 << 20
	fresh := func() handleMaker[*brokenTranscript] {
		inner := session.NewMemory().Transcripts
		return func(nth int) *brokenTranscript { return &brokenTranscript{inner: inner, nth: nth} }
	}
	wrap := func(rule string, s *brokenTranscript) session.Transcripts {
		if rule == "closed" {
			return closableTranscript{s}
		}
		return s
	}
	breakEach(t, transcriptRules, brokenTranscripts, fresh, wrap)
}

type (
	appendLinesFunc = func(
		context.Context, session.Ref, session.Pos, ...session.Message,
	) (session.Pos, error)
	readLinesFunc = func(
		context.Context, session.Ref, session.LineQuery,
	) iter.Seq2[session.Line, error]
	archiveFunc = func(context.Context, session.Ref, time.Time) (string, error)
	removeFunc  = func(context.Context, session.Ref) error
)

func refusesUnknown(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		if q.After > 0 && q.Last > 0 && s.end(ref) == 0 {
			return func(yield func(session.Line, error) bool) {
				yield(session.Line{}, session.ErrNotFound)
			}
		}
		return s.inner.Read(ctx, ref, q)
	}
}

func swapsLines(_ session.Ref, _ session.LineQuery, lines []session.Line) []session.Line {
	if len(lines) >= 20 {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return lines
}

func wrapsAround(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		if q.After > s.end(ref)+100 {
			q.After = 0
		}
		return s.inner.Read(ctx, ref, q)
	}
}

func takesFirst(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		return func(yield func(session.Line, error) bool) {
			n := 0
			all := session.LineQuery{After: q.After, Last: min(q.Last, 0), Archived: q.Archived}
			if q.Archived {
				all.Last = q.Last
			}
			for line, err := range s.inner.Read(ctx, ref, all) {
				if n++; q.Last > 0 && n > q.Last || !yield(line, err) {
					return
				}
			}
		}
	}
}

func givesTickets(s *brokenTranscript) appendLinesFunc {
	const ticket = 1_000_000
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		pos, err := s.inner.Append(ctx, ref, after%ticket, m...)
		if err == nil && len(m) == 1 && m[0].Text == "y/0" {
			pos += ticket
		}
		return pos, err
	}
}

func takesSecond(s *brokenTranscript) appendLinesFunc {
	var n atomic.Int32
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
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

func takesLinesAhead(s *brokenTranscript) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		if end := s.end(ref); end > 0 && after == end+1 {
			after = end
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func looksThenWrites(s *brokenTranscript) appendLinesFunc {
	var mu sync.Mutex
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		if s.end(ref) != after {
			return s.inner.Append(ctx, ref, after, m...)
		}
		yieldToOthers()
		mu.Lock()
		defer mu.Unlock()
		return s.inner.Append(ctx, ref, s.end(ref), m...)
	}
}

func nothingIsFine(s *brokenTranscript) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		if len(m) == 0 {
			return after, nil
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func rewrites(s *brokenTranscript, f func(session.Message) session.Message) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
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
		ID: m.ID, Role: m.Role, Text: m.Text, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID,
		Failed: m.Failed, Internal: m.Internal, Ord: m.Ord, Synthetic: m.Synthetic,
		Copied: m.Copied, Time: m.Time, Model: m.Model, Usage: m.Usage, Raw: m.Raw,
		Discard: m.Discard,
	}
}

// hidesFromTheSecond reads without the last line during another read.
func hidesFromTheSecond(s *brokenTranscript) {
	var reading atomic.Int32
	s.change(func(_ session.Ref, _ session.LineQuery, lines []session.Line) []session.Line {
		defer reading.Add(-1)
		if reading.Add(1) > 1 && len(lines) > 0 {
			lines = lines[:len(lines)-1]
		}
		yieldToOthers()
		return lines
	})
}

func beginsAgain(s *brokenTranscript) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		if s.nth > 0 && after == 0 {
			after = s.end(ref)
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func mixesIDs(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		if ref.SessionID != ".." {
			ref.SessionID, _, _ = strings.Cut(ref.SessionID, ".")
		}
		return s.inner.Read(ctx, ref, q)
	}
}

func oneAtATime(s *brokenTranscript) appendLinesFunc {
	var g busyGate[session.Ref]
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		others, leave := g.enter(ref)
		defer leave()
		if others {
			return 0, errors.New("another transcript is being written")
		}
		return s.inner.Append(ctx, ref, after, m...)
	}
}

func otherName(s *brokenTranscript) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		name, _, _ = strings.Cut(name, ".deleted.")
		return name, err
	}
}

func newNames(s *brokenTranscript) archiveFunc {
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

func forgetsName(s *brokenTranscript) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		if s.nth > 0 {
			name = ""
		}
		return name, err
	}
}

func swallowsLate(s *brokenTranscript) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
	) (session.Pos, error) {
		pos, err := s.inner.Append(ctx, ref, after, m...)
		if errors.Is(err, session.ErrArchived) {
			return after + session.Pos(len(m)), nil
		}
		return pos, err
	}
}

func missesNothing(s *brokenTranscript) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		name, err := s.inner.Archive(ctx, ref, at)
		if err == nil && name == "" {
			err = session.ErrNotFound
		}
		return name, err
	}
}

func keepsYielding(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		return ignoreStop(s.inner.Read(ctx, ref, q))
	}
}

func takesNegative(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		q.Last = max(q.Last, 0)
		return s.inner.Read(ctx, ref, q)
	}
}

// leavesOutInvalid adds the messages that can be encoded.
func leavesOutInvalid(s *brokenTranscript) appendLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, after session.Pos, all ...session.Message,
	) (session.Pos, error) {
		all = slices.DeleteFunc(slices.Clone(all), func(m session.Message) bool {
			_, err := m.AppendJSON(nil)
			return err != nil
		})
		return s.inner.Append(ctx, ref, after, all...)
	}
}

func archivesAnyway(s *brokenTranscript) archiveFunc {
	return func(ctx context.Context, ref session.Ref, at time.Time) (string, error) {
		return s.inner.Archive(context.WithoutCancel(ctx), ref, at)
	}
}

// passesOverArchived yields nothing of an archived transcript.
func passesOverArchived(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		return func(yield func(session.Line, error) bool) {
			for line, err := range s.inner.Read(ctx, ref, q) {
				if errors.Is(err, session.ErrArchived) || !yield(line, err) {
					return
				}
			}
		}
	}
}

// yieldsWholeArchive yields all lines of an archived transcript.
func yieldsWholeArchive(s *brokenTranscript) readLinesFunc {
	return func(
		ctx context.Context, ref session.Ref, q session.LineQuery,
	) iter.Seq2[session.Line, error] {
		if q.Archived {
			q = session.LineQuery{Archived: true}
		}
		return s.inner.Read(ctx, ref, q)
	}
}

// removesNothing leaves an archived transcript where it is.
func removesNothing(s *brokenTranscript) removeFunc {
	return func(ctx context.Context, ref session.Ref) error {
		for _, err := range s.inner.Read(ctx, ref, session.LineQuery{}) {
			if errors.Is(err, session.ErrArchived) {
				return nil
			}
		}
		return s.inner.Remove(ctx, ref)
	}
}

// archivesFirst removes a transcript that is in use.
func archivesFirst(s *brokenTranscript) removeFunc {
	return func(ctx context.Context, ref session.Ref) error {
		if ref.Validate() != nil {
			return s.inner.Remove(ctx, ref)
		}
		if _, err := s.inner.Archive(ctx, ref, kitNoon); err != nil {
			return err
		}
		return s.inner.Remove(ctx, ref)
	}
}
