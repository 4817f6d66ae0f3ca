package sessiontest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
)

// A TranscriptsOpenFunc opens transcripts. Every call opens the same transcripts, as a process that
// starts again would. What is an [io.Closer] is closed before the next call.
type TranscriptsOpenFunc = func() (session.Transcripts, error)

// TestTranscripts runs every rule of [session.Transcripts] in a subtest, which quotes the rule if
// it fails. It calls fresh once for each rule. fresh returns a function that opens a store without
// transcripts.
func TestTranscripts(t *testing.T, fresh func(t *testing.T) TranscriptsOpenFunc) {
	t.Helper()
	runRules(t, transcriptRules, fresh)
}

type (
	transcriptRule  = rule[session.Transcripts]
	transcriptProbe = probe[session.Transcripts]
)

// transcriptRules are the rules of [session.Transcripts], in the order of their numbers.
var transcriptRules = []transcriptRule{
	{
		"empty",
		"A transcript that does not exist ends at zero, and Read yields nothing of it.",
		checkNoLines,
	},
	{
		"order",
		"Read yields the lines in order, the oldest first, with positions that grow.",
		checkLineOrder,
	},
	{"after", "A LineQuery with After selects the lines after that position.", checkQueryAfter},
	{
		"last",
		"A LineQuery with Last selects at most so many lines, the last ones of those after After.",
		checkQueryLast,
	},
	{
		"position",
		"Append returns the position of the last line, which is where the transcript then ends.",
		checkPosition,
	},
	{
		"stale",
		"Append adds nothing and returns ErrConflict if the transcript has gone on beyond after.",
		checkStaleLines,
	},
	{
		"ahead",
		"Append adds nothing and returns ErrConflict if the transcript does not reach after.",
		checkAheadLines,
	},
	{
		"one winner",
		"Of 64 goroutines that append after the same position, exactly one succeeds; the others get ErrConflict.",
		checkOneWriter,
	},
	{
		"no messages",
		"An Append of no messages adds nothing, and says by ErrConflict whether after is right.",
		checkNoMessages,
	},
	{
		"message",
		"A message is read back as it was, the provider's form and the arguments of tool calls byte for byte.",
		checkMessage,
	},
	{"newer", "What a newer version wrote into a message is read back as well.", checkNewer},
	{
		"visible",
		"Once Append has returned, every Read sees the lines, from any goroutine.",
		checkLinesVisible,
	},
	{
		"durable",
		"Once Append has returned, the lines are there when the transcripts are opened again, and the transcript goes on from them.",
		checkLinesDurable,
	},
	{
		"apart",
		"Transcripts are kept apart: of different sessions, and of one key with different session ids.",
		checkLinesApart,
	},
	{
		"at once",
		"Different transcripts can be appended to from many goroutines at once.",
		checkLinesAtOnce,
	},
	{
		"archive",
		"Archive takes the transcript away under a name that ends with .deleted.<timestamp>, and returns that name.",
		checkArchive,
	},
	{
		"archive again",
		"Archiving again changes nothing and returns the same name, whatever the time.",
		checkArchiveAgain,
	},
	{
		"archive durable",
		"A transcript is still archived when the transcripts are opened again.",
		checkArchiveDurable,
	},
	{
		"archived",
		"An archived transcript takes nothing more: Append returns ErrArchived.",
		checkArchived,
	},
	{
		"archive nothing",
		"Archiving a transcript that does not exist returns no name and no error, and the transcript can still be begun.",
		checkArchiveNothing,
	},
	{
		"read archived",
		"Read of an archived transcript yields ErrArchived and nothing else, also when it is opened again.",
		checkReadArchived,
	},
	{
		"archived lines",
		"A LineQuery with Archived selects the lines of an archived transcript at their positions, and those of any other as without it.",
		checkArchivedLines,
	},
	{
		"restore",
		"Restore takes an archived transcript, and no other, into use again: Read yields its lines at their positions, and Append adds to them.",
		checkRestore,
	},
	{
		"restore durable",
		"A restored transcript is in use when the transcripts are opened again, and goes on.",
		checkRestoreDurable,
	},
	{
		"restore live",
		"Restore changes nothing for a transcript that is in use, and is ErrNotFound for one that does not exist.",
		checkRestoreLive,
	},
	{
		"restore again",
		"A restored transcript is archived again as any other, with the new time in its name, and restored again.",
		checkRestoreAgain,
	},
	{
		"archives",
		"Archives yields what was archived before a time, each once with its time, and not what is in use or restored; a loop may end early and restore.",
		checkArchives,
	},
	{
		"remove",
		"Remove takes an archived transcript away for good: it is one that does not exist, also when it is opened again.",
		checkRemove,
	},
	{
		"remove live",
		"Remove returns ErrNotArchived for a transcript that is in use, nil for one that does not exist, and changes nothing.",
		checkRemoveLive,
	},
	{
		"locate",
		"Locate says the same place until the transcript is archived, and then one that ends with the new name, or never a place.",
		checkLocate,
	},
	{
		"early stop",
		"A loop over Read may append, and may end early, and then holds nothing up.",
		checkLinesEarlyStop,
	},
	{
		"invalid",
		"A Ref without a key, or with a session id that cannot be a name, is ErrInvalidKey; a LineQuery with a negative Last is an error.",
		checkInvalidRef,
	},
	{
		"invalid line",
		"Append refuses messages of which one cannot be encoded with ErrInvalidLine, and adds none of them.",
		checkInvalidLine,
	},
	{
		"large line",
		"A line of a kilobyte less than session.BatchLimit is taken, and read back whole.",
		checkLargeLine,
	},
	{
		"long line",
		"A line above session.BatchLimit is taken whole, or refused with ErrInvalidLine, and then nothing has changed.",
		checkLongLine,
	},
	{
		"context",
		"A ctx that is done makes Append and Archive do nothing and Read yield its error, and nothing after it.",
		checkLinesContext,
	},
	{"closed", "After Close, Append, Read and Archive return ErrClosed.", checkLinesClosed},
}

var (
	refA = session.Ref{Key: rootA, SessionID: "6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"}
	refB = session.Ref{Key: rootB, SessionID: "0b6c1c1e-2e0f-4f6e-8a53-4f6c2a527d1c"}
)

// messages returns n messages. Each says the id and its own index.
func messages(id string, n int) []session.Message {
	var all []session.Message
	for _, text := range factTexts(id, n) {
		all = append(all, session.Message{Role: session.MessageUser, Text: text, Time: kitNoon})
	}
	return all
}

// writeLines appends messages and returns the end. The rule fails if Append does.
func writeLines(
	p *transcriptProbe, s session.Transcripts, ref session.Ref, after session.Pos,
	m ...session.Message,
) session.Pos {
	last, err := s.Append(p.ctx, ref, after, m...)
	p.must(fmt.Sprintf("append %d messages to %v after %d", len(m), ref, after), err)
	return last
}

// linesOf returns the lines that q selects. The rule fails if Read does.
func linesOf(
	p *transcriptProbe, s session.Transcripts, ref session.Ref, q session.LineQuery,
) []session.Line {
	var lines []session.Line
	for line, err := range s.Read(p.ctx, ref, q) {
		p.must(fmt.Sprintf("read %v %+v", ref, q), err)
		lines = append(lines, line)
	}
	return lines
}

// wantTexts fails the rule unless the lines that q selects have exactly the wanted texts.
func wantTexts(
	p *transcriptProbe, s session.Transcripts, ref session.Ref, q session.LineQuery, want ...string,
) {
	var got []string
	for _, line := range linesOf(p, s, ref, q) {
		got = append(got, line.Message.Text)
	}
	if !slices.Equal(got, want) {
		p.fail("read %v %+v: got %q, want %q", ref, q, got, want)
	}
}

func checkNoLines(p *transcriptProbe) {
	s := p.open()
	wantTexts(p, s, refA, session.LineQuery{})
	wantTexts(p, s, refA, session.LineQuery{After: 3, Last: 2})
}

func checkLineOrder(p *transcriptProbe) {
	s := p.open()
	var last session.Pos
	var want []string
	for i := range 20 {
		id := fmt.Sprint("m", i)
		last = writeLines(p, s, refA, last, messages(id, 1+i%3)...)
		want = append(want, factTexts(id, 1+i%3)...)
	}
	wantTexts(p, s, refA, session.LineQuery{}, want...)
	var before session.Pos
	for _, line := range linesOf(p, s, refA, session.LineQuery{}) {
		if line.Pos <= before {
			p.fail("line %q has position %d after %d", line.Message.Text, line.Pos, before)
		}
		before = line.Pos
	}
}

func checkQueryAfter(p *transcriptProbe) {
	s := p.open()
	writeLines(p, s, refA, writeLines(p, s, refA, 0, messages("x", 3)...), messages("y", 2)...)
	all := linesOf(p, s, refA, session.LineQuery{})
	for i, line := range all {
		var want []string
		for _, later := range all[i+1:] {
			want = append(want, later.Message.Text)
		}
		wantTexts(p, s, refA, session.LineQuery{After: line.Pos}, want...)
	}
	if len(all) > 0 {
		wantTexts(p, s, refA, session.LineQuery{After: all[len(all)-1].Pos + 1000})
	}
}

func checkQueryLast(p *transcriptProbe) {
	s := p.open()
	writeLines(p, s, refA, 0, messages("x", 5)...)
	all := linesOf(p, s, refA, session.LineQuery{})
	for n := 1; n <= 7; n++ {
		wantTexts(p, s, refA, session.LineQuery{Last: n}, factTexts("x", 5)[max(0, 5-n):]...)
		wantTexts(
			p,
			s,
			refA,
			session.LineQuery{After: all[1].Pos, Last: n},
			factTexts("x", 5)[max(2, 5-n):]...)
	}
}

func checkPosition(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 3)...)
	for range 2 {
		lines := linesOf(p, s, refA, session.LineQuery{})
		if len(lines) == 0 || lines[len(lines)-1].Pos != last {
			p.fail("append returned %d, but the lines are %v", last, lines)
		}
		last = writeLines(p, s, refA, last, messages("y", 1)...)
	}
}

func checkStaleLines(p *transcriptProbe) {
	s := p.open()
	first := writeLines(p, s, refA, 0, messages("x", 1)...)
	writeLines(p, s, refA, first, messages("y", 1)...)
	for _, after := range []session.Pos{0, first} {
		_, err := s.Append(p.ctx, refA, after, messages("stale", 1)...)
		p.wantIs(fmt.Sprintf("append after %d", after), err, session.ErrConflict)
	}
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "y/0")
}

func checkAheadLines(p *transcriptProbe) {
	s := p.open()
	_, err := s.Append(p.ctx, refA, 1, messages("ahead", 1)...)
	p.wantIs("append after 1 to a transcript that does not exist", err, session.ErrConflict)
	last := writeLines(p, s, refA, 0, messages("x", 1)...)
	_, err = s.Append(p.ctx, refA, last+1, messages("ahead", 1)...)
	p.wantIs("append beyond the end", err, session.ErrConflict)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0")
}

func checkOneWriter(p *transcriptProbe) {
	s := p.open()
	const rivals, rounds = 64, 8
	var last session.Pos
	for round := range rounds {
		next := make(chan session.Pos, rivals)
		strange := make(chan error, rivals)
		var wg sync.WaitGroup
		for i := range rivals {
			wg.Go(func() {
				pos, err := s.Append(
					p.ctx,
					refA,
					last,
					messages(fmt.Sprintf("r%d-%d", round, i), 1)...)
				switch {
				case err == nil:
					next <- pos
				case !errors.Is(err, session.ErrConflict):
					strange <- err
				}
			})
		}
		wg.Wait()
		if len(strange) > 0 {
			p.must("append among rivals", <-strange)
		}
		if len(next) != 1 {
			p.fail("%d of %d appends after %d succeeded", len(next), rivals, last)
		}
		last = <-next
	}
	if n := len(linesOf(p, s, refA, session.LineQuery{})); n != rounds {
		p.fail("%d lines after %d rounds", n, rounds)
	}
}

func checkNoMessages(p *transcriptProbe) {
	s := p.open()
	if last := writeLines(p, s, refA, 0); last != 0 {
		p.fail("append of nothing to a transcript that does not exist returned %d", last)
	}
	end := writeLines(p, s, refA, 0, messages("x", 2)...)
	if last := writeLines(p, s, refA, end); last != end {
		p.fail("append of nothing after %d returned %d", end, last)
	}
	_, err := s.Append(p.ctx, refA, 0)
	p.wantIs("append of nothing after a stale position", err, session.ErrConflict)
	wantTexts(p, s, refA, session.LineQuery{}, "x/0", "x/1")
}

// hardMessages use every field, and hold values that careless storage changes.
func hardMessages() []session.Message {
	return []session.Message{
		{},
		{
			ID: "tg:1", Role: session.MessageUser,
			Text: "a\nb\r\n\t\"q\" <b>&amp;</b> \u2028 😀 \u0000", Time: kitNoon.Add(123456789),
		},
		{
			Role: session.MessageAssistant, Text: " ", Model: "vendor/model", Time: kitNoon,
			ToolCalls: []session.ToolCall{
				{
					ID: "call_0", Name: "read",
					Args: json.RawMessage(`{"path":"<a>","n":1.50,"big":9007199254740993}`),
				},
				{ID: "call_1", Name: "exec", Args: json.RawMessage(`{"cut off`)},
				{ID: "call_2", Name: "none"},
			},
			Usage: session.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 0.000125},
			Raw: json.RawMessage(
				"{\n  \"content\": [ {\"type\":\"text\", \"text\":\"<x>\"} ],\r\n  \"z\": 1e2 }\n",
			),
		},
		{
			Role: session.MessageTool, ToolCallID: "call_0", Text: strings.Repeat("long ", 20_000),
			Failed: true, Synthetic: true, Copied: true, Raw: json.RawMessage(`{"a": [1, 2]}`),
		},
		{
			Role: session.MessageUser, Text: "steer", Internal: true, Ord: 7,
			Raw: json.RawMessage("\xff\x00not json"),
		},
		{Role: "a later role", Text: "kept"},
		session.Fence(0, kitNoon),
		session.Fence(4, kitNoon),
	}
}

// messageJSON returns the JSON of m, in which every byte counts.
func messageJSON(p *transcriptProbe, m session.Message) string {
	data, err := m.AppendJSON(nil)
	p.must("encode a message", err)
	return string(data)
}

func checkMessage(p *transcriptProbe) {
	s := p.open()
	want := hardMessages()
	writeLines(p, s, refA, 0, want...)
	got := linesOf(p, s, refA, session.LineQuery{})
	if len(got) != len(want) {
		p.fail("got %d lines, want %d", len(got), len(want))
	}
	for i, line := range got {
		g, w := messageJSON(p, line.Message), messageJSON(p, want[i])
		if g != w || string(line.Message.Raw) != string(want[i].Raw) {
			p.fail("message %.200s was read back as %.200s", w, g)
		}
	}
}

func checkNewer(p *transcriptProbe) {
	s := p.open()
	const newer = `{"role":"user","text":"x","usage":{"input":1,"reasoning":7},"toolCalls":[{"id":"a","name":"b","kind":"mcp"}],"later":{"a":[1,"<"]}}`
	var m session.Message
	p.must("decode", json.Unmarshal([]byte(newer), &m))
	writeLines(p, s, refA, 0, m)
	for _, line := range linesOf(p, s, refA, session.LineQuery{}) {
		if got := messageJSON(p, line.Message); !sameJSON([]byte(got), []byte(newer)) {
			p.fail("message %s was read back as %s", newer, got)
		}
	}
}

func checkLinesVisible(p *transcriptProbe) {
	s := p.open()
	var last session.Pos
	for i := range 20 {
		next := writeLines(p, s, refA, last, messages(fmt.Sprint("m", i), 2)...)
		seen := make(chan int, 4)
		for range cap(seen) {
			go func() {
				n := 0
				for _, err := range s.Read(p.ctx, refA, session.LineQuery{After: last}) {
					if err == nil {
						n++
					}
				}
				seen <- n
			}()
		}
		counts := []int{<-seen, <-seen, <-seen, <-seen}
		if !slices.Equal(counts, []int{2, 2, 2, 2}) {
			p.fail("after append %d had returned, reads saw %v of its 2 lines", i, counts)
		}
		last = next
	}
}

func checkLinesDurable(p *transcriptProbe) {
	s := p.open()
	last := writeLines(p, s, refA, 0, messages("x", 2)...)
	s = p.reopen()
	wantTexts(p, s, refA, session.LineQuery{}, factTexts("x", 2)...)
	_, err := s.Append(p.ctx, refA, 0, messages("stale", 1)...)
	p.wantIs("append after 0 to the transcript that was opened again", err, session.ErrConflict)
	writeLines(p, s, refA, last, messages("y", 1)...)
	wantTexts(
		p,
		p.reopen(),
		refA,
		session.LineQuery{},
		append(factTexts("x", 2), factTexts("y", 1)...)...)
}

func checkLinesApart(p *transcriptProbe) {
	s := p.open()
	refs := []session.Ref{
		refA, refB,
		{Key: refA.Key, SessionID: refB.SessionID},
		{Key: refA.Key, SessionID: "a"},
		{Key: refA.Key, SessionID: "a.b"},
	}
	for _, root := range alikeRoots() {
		if root.IsValid() {
			refs = append(refs, session.Ref{Key: root, SessionID: fmt.Sprint("id-", len(refs))})
		}
	}
	for i, ref := range refs {
		writeLines(p, s, ref, 0, messages(fmt.Sprint("of", i), 1)...)
	}
	s = p.reopen()
	for i, ref := range refs {
		wantTexts(p, s, ref, session.LineQuery{}, fmt.Sprintf("of%d/0", i))
	}
}

func checkLinesAtOnce(p *transcriptProbe) {
	s := p.open()
	const transcripts, appends = 16, 8
	failed := make([]error, transcripts)
	ref := func(i int) session.Ref {
		return session.Ref{
			Key:       session.Must(session.NamedKey("main", fmt.Sprint("log", i))),
			SessionID: fmt.Sprint("id-", i),
		}
	}
	var wg sync.WaitGroup
	for i := range transcripts {
		wg.Go(func() {
			var last session.Pos
			for n := 0; n < appends && failed[i] == nil; n++ {
				last, failed[i] = s.Append(p.ctx, ref(i), last, messages(fmt.Sprint("m", n), 1)...)
			}
		})
	}
	wg.Wait()
	p.must("append beside others", errors.Join(failed...))
	for i := range transcripts {
		var want []string
		for n := range appends {
			want = append(want, factTexts(fmt.Sprint("m", n), 1)...)
		}
		wantTexts(p, s, ref(i), session.LineQuery{}, want...)
	}
}
