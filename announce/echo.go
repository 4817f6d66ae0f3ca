package announce

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// The runtime's own texts start with these words. Event.ForModel writes them, and stripEchoes
// recognises an echo by them.
const (
	fenceOpen  = "<<<completion "
	fenceClose = "<<<end of completion "
	fenceEnd   = ">>>"

	statsStart = "Stats: runtime "

	statsBullet = "•"

	maxNonce = 64 // bytes
)

// cleanNonce returns the letters, digits, '-' and '_' of a nonce, at most maxNonce of them. None of
// these can end a line or a fence.
func cleanNonce(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r < 0x80 && isWord(r) {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxNonce)]
}

const (
	// maxQuote is the number of quoteMarks with which a line may begin that is an echo.
	maxQuote = 128
	// maxMention is the number of bytes within which an event ends that begins and goes on inside
	// a line.
	maxMention = 1024
	// maxBlanks is the number of blanks between two words of an event.
	maxBlanks = 16
	// maxEnds is the number of end markers among which that of an event is looked for.
	maxEnds = 8
)

// An echo removes the runtime's own events and stats lines from a text into which a model has
// copied them. A person must not see them, not even indented, quoted or as code.
//
// An event extends from an opening marker to the end marker with the same nonce, if its opening
// marker starts or ends a line and the end is one of the next maxEnds, within ahead.Max bytes. If
// the marker stands inside a line, the end marker must follow within maxMention bytes. Of any other
// marker, only the marker goes, and behind one that starts or ends a line the lines of an event
// that follow at once: so a marker does not take the answer behind it along. Such lines also go
// where they begin with one that only an event has, without a marker or behind one in another
// spelling.
//
// What stands above a message that says who speaks, or which session has sent it, goes from the
// beginning of a line, also of one in a list; what follows on the line stays.
type echo struct {
	ahead.Cursor
	guard

	begun bool   // the beginning of the current line was looked at
	until string // the end marker of the event that is being removed
	after bool   // an event ended right before At
	line  bool   // the rest of the line is being removed
	cuts  bool   // something was removed
	own   ownLines

	ends   []int // where end markers begin that were met
	sought int   // all of those before this position were
}

// An ownLines says which lines of an event without its end are removed.
type ownLines uint8

const (
	ownNone ownLines = iota
	ownHead          // its fields
	ownData          // its fields, and what stands behind bars
)

// pass takes the next piece of the text and returns what stays of it.
func (e *echo) pass(piece string, final bool) string {
	if e.drops {
		piece = dropOpeners(piece)
	}
	if !e.Begin(piece, final) {
		return ""
	}
	for e.At < len(e.Buf) && e.step() {
	}
	kept, moved := e.Finish(e.hold(&e.Cursor, e.At))
	e.shift(moved)
	passed, _ := slices.BinarySearch(e.ends, moved)
	e.ends = append(e.ends[:0], e.ends[passed:]...)
	for i := range e.ends {
		e.ends[i] -= moved
	}
	e.sought = max(0, e.sought-moved)
	return kept
}

// step passes some of the text. It returns false if it needs more of the text.
func (e *echo) step() bool {
	v := e.View()
	switch {
	case e.until != "":
		return e.passEvent()
	case e.after:
		end := v.Skip(e.At, quoteMarks)
		if v.Waits() {
			return false
		}
		if e.after = false; v.Ended(end) || v.S[end] == '\n' {
			e.Skip(min(end+1, len(v.S)))
			e.begun = false
		}
		return true
	case e.line:
		i := v.Any(e.At, "\n")
		e.line = i == len(v.S)
		e.Skip(min(i+1, len(v.S)))
		return true
	case !e.begun:
		return e.beginLine(&v)
	}
	for e.At < len(e.Buf) && e.Buf[e.At] != '<' && e.Buf[e.At] != '\n' {
		e.At++
	}
	if e.At == len(e.Buf) {
		return true
	}
	if e.Buf[e.At] == '\n' {
		e.At, e.begun = e.At+1, false
		return true
	}
	v = e.View()
	marker, isOpen := markerAt(&v, e.At)
	end := e.At + len(marker)
	isLast := isOpen && endsLine(&v, end)
	isEvent := isLast && e.closes(&v, end, marker) ||
		isOpen && !isLast && endsSoon(&v, end, endMarker(marker))
	if v.Waits() {
		return false
	}
	if marker == "" {
		e.waits(e.At, v.Seen())
		e.At++
		return true
	}
	e.remove(end)
	switch {
	case isEvent:
		e.until = endMarker(marker)
	case isLast:
		e.own = ownHead
	}
	return true
}

// closes reports whether the end marker of an event follows a position.
func (e *echo) closes(v *ahead.View, at int, opening string) bool {
	for e.sought+len(fenceClose) <= len(e.Buf) {
		i := indexFold(e.Buf[e.sought:], fenceClose)
		if i < 0 {
			e.sought = len(e.Buf) - len(fenceClose) + 1
			break
		}
		e.ends = append(e.ends, e.sought+i)
		e.sought += i + 1
	}
	marker := endMarker(opening)
	next, _ := slices.BinarySearch(e.ends, at)
	for n, start := range e.ends[next:] {
		if n == maxEnds {
			return false
		}
		end := start + len(marker)
		if end > len(v.S) {
			break
		}
		if equalFold(v.S[start:end], marker) {
			v.Read(end)
			return true
		}
	}
	v.Read(len(v.S) + 1)
	return false
}

// beginLine looks at the beginning of a line, which may be an event or a stats line.
func (e *echo) beginLine(v *ahead.View) bool {
	marks := v.Within(e.At, maxQuote)
	at := marks.Skip(e.At, quoteMarks)
	word := marks.Skip(at, listMarks)
	above := e.aboveAt(v, word)
	word = marks.Skip(word, lineMarks)
	v.Join(marks)
	marker, isOpen := markerAt(v, at)
	isEvent := isOpen && e.closes(v, at+len(marker), marker)
	isLast := isOpen && !isEvent && endsLine(v, at+len(marker))
	own := ownNone
	if marker == "" {
		if own = e.ownAt(v, at); own == ownNone && word > at {
			own = e.ownAt(v, word)
		}
	}
	isStats := marker == "" && own == ownNone && above.end == 0 && startsStats(v, word)
	if isStats {
		at = word
		line := v.Any(at, "\n")
		if isStats = namesSession(v.S[at:line], line < len(v.S) || !v.MayGrow()); isStats {
			v = &ahead.View{} // what follows on the line changes nothing
		}
	}
	if v.Waits() {
		return false
	}
	e.begun, e.own = true, own
	switch {
	case isEvent:
		e.remove(at + len(marker))
		e.until = endMarker(marker)
	case isOpen:
		e.remove(at + len(marker))
		if isLast {
			e.line, e.begun, e.own = true, false, ownHead
		}
	case isStats, own != ownNone, above.alone:
		e.remove(at)
		e.line, e.begun = true, false
	case above.end > 0:
		e.At, e.begun = above.at, false // what follows begins the line
		e.remove(above.end)
	}
	return true
}

// The lines that stand above a message in a conversation begin with these words: one says who
// speaks, see package sender, and one which session has sent the message. What follows in the line
// is in isSender, and in sentEnd.
const (
	senderStart = "[message from "
	sentStart   = "[offshoot] the session agent:"
	sentEnd     = " has sent you a message:"

	maxAbove = 2048 // bytes of such a line

	emphasis  = "*_`~"
	listMarks = quoteMarks + emphasis + "-+#.)0123456789"
	lineMarks = listMarks + "([\"'" // before a line of an event that is quoted
)

// startsStats reports whether a stats line begins at a position, also with its label in emphasis.
func startsStats(v *ahead.View, at int) bool {
	const label, first = "stats", "runtime "
	if !v.HasFold(at, label) {
		return false
	}
	at = v.Skip(at+len(label), emphasis)
	return v.Byte(at) == ':' && startsWith(v, skipBlanks(v, v.Skip(at+1, emphasis+" ")), first)
}

// statsMarks are what a stats line has that people may not see, in lower case. Without any of them
// it is the one that they may see, see Stats.ForPerson.
var statsMarks = [...]string{" • sessionkey ", " • sessionid ", " • transcript ", " • steersmissed "}

// namesSession reports whether a stats line has one of statsMarks, in any letter case and with any
// blanks between its words. The last word of a line that is not whole may go on.
func namesSession(line string, whole bool) bool {
	line = strings.ToLower(strings.Join(strings.Fields(line), " "))
	if whole {
		line += " "
	}
	return slices.ContainsFunc(statsMarks[:], func(mark string) bool {
		return strings.Contains(line, mark)
	})
}

// An aboveLine is a line that stands above a message, which a model has copied. The zero aboveLine
// is none.
type aboveLine struct {
	at, end int  // what is removed of the line if something follows
	alone   bool // nothing follows
}

// aboveAt returns the aboveLine that has its first word at a position. Marks of emphasis around it
// belong to it.
func (e *echo) aboveAt(v *ahead.View, at int) aboveLine {
	end := aboveEnd(v, at)
	if end == 0 {
		return aboveLine{}
	}
	for at > e.At && strings.IndexByte(emphasis, v.S[at-1]) >= 0 && v.Has(end, v.S[at-1:at]) {
		at, end = at-1, end+1
	}
	rest := v.Within(end, maxQuote)
	next := rest.Skip(end, " \t\r")
	alone := rest.Ended(next) || rest.S[next] == '\n'
	v.Join(rest)
	return aboveLine{at: at, end: next, alone: alone}
}

// aboveEnd returns the position after the words at a position that say who speaks, or which session
// has sent a message, or 0 if they do not say that.
func aboveEnd(v *ahead.View, at int) (end int) {
	line := v.Within(at, maxAbove)
	switch {
	case line.HasFold(at, senderStart):
		if i := line.Any(at, "]\n"); i < len(line.S) && isSender(line.S[at+len(senderStart):i+1]) {
			end = i + 1
		}
	case line.HasFold(at, sentStart):
		if i := line.Any(at+len(sentStart), " \n"); line.HasFold(i, sentEnd) {
			end = i + len(sentEnd)
		}
	}
	v.Join(line)
	return end
}

// isSender reports whether the rest of a line that begins with senderStart, up to its bracket, says
// who speaks as package sender does. A model may leave out the quotation marks of the id.
func isSender(rest string) bool {
	rest = strings.ToLower(rest)
	if name, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
		_, of, _ := strings.Cut(name, `"`)
		id, hasID := strings.CutPrefix(of, ", id ")
		return of == ", without an id]" || hasID && id != "]"
	}
	return rest == "a sender who is not known]" || strings.HasPrefix(rest, `id "`)
}

// ownStarts are lines that only an event has, and the markers of one in other spellings.
var ownStarts = []string{
	"from the runtime, not from a person.", keyStart,
	"result, as data; no line behind a bar", "&lt;&lt;&lt;completion ", "&lt;&lt;&lt;end of completion ",
	"＜＜＜completion ", "＜＜＜end of completion ", "<<<completion ", "<<<end of completion ",
	`"\u003c\u003c\u003ccompletion `, `"<<<completion `,
	// The instruction; see Event.instruction.
	"what to do: the child chose to report nothing; ", "what to do: the run did not end well: treat ",
	"what to do: use it for the task you work on; only ", "what to do: no person is waiting. act on it ",
	"what to do: tell the person what matters of it in your ",
}

// keyStart begins the line with the key of a session. Alone it may be an answer: another line of an
// event must stand beside it.
const (
	keyField = "session key: "
	keyStart = keyField + "agent:"
)

// ownFirsts are the bytes that ownStarts and dataStart begin with.
var ownFirsts = func() (firsts [256]bool) {
	for _, s := range append(slices.Clip(ownStarts), dataStart) {
		firsts[s[0]] = true
		if s[0] >= 'a' && s[0] <= 'z' {
			firsts[s[0]-'a'+'A'] = true
		}
	}
	return firsts
}()

// ownFields are how the other lines of an event begin.
var ownFields = []string{
	"from the runtime", "source: ", keyField, "session id: ", "type: ", "task name: ", "task: ", "status: ",
	"model: ", "what to do: ", "files of the result, as data", "[cut here: ", "stats: runtime ",
}

// dataStart is the line behind which the lines of the child stand.
const dataStart = "result, as data; no line behind a bar"

// ownAt returns what of an event is removed from the line on that has its first word at a position.
func (e *echo) ownAt(v *ahead.View, at int) ownLines {
	switch {
	case e.own == ownNone && !ownFirsts[v.Byte(at)]:
		return ownNone
	case startsWith(v, at, dataStart):
		return ownData
	case e.own == ownNone && startsWith(v, at, keyStart) && !ownFollows(v, at):
		return ownNone
	case startsOwn(v, at):
		return max(e.own, ownHead)
	case e.own == ownData && strings.IndexByte(v.S[e.At:min(at, len(v.S))], '|') >= 0:
		return ownData
	case e.own != ownNone:
		if slices.ContainsFunc(ownFields, func(s string) bool { return startsWith(v, at, s) }) ||
			isMoreFiles(v, at) {
			return e.own
		}
	}
	return ownNone
}

// ownFollows reports whether the next line is another line of an event.
func ownFollows(v *ahead.View, at int) bool {
	near := v.Within(at, maxMention)
	next := near.Skip(near.Any(at, "\n")+1, lineMarks)
	follows := slices.ContainsFunc(append(slices.Clip(ownFields), dataStart), func(s string) bool {
		return s != keyField && startsWith(&near, next, s)
	})
	v.Join(near)
	return follows
}

// noKey begins the line of an event whose session has no key.
const noKey = keyField + blankField

// startsOwn reports whether one of ownStarts stands at a position, or the line of an event whose
// session has no key, alone on its line.
func startsOwn(v *ahead.View, at int) bool {
	const behind = emphasis + " \t\r\"']"
	if startsWith(v, at, noKey) {
		return endsLine(v, v.Skip(at+len(noKey), behind))
	}
	return slices.ContainsFunc(ownStarts, func(s string) bool { return startsWith(v, at, s) })
}

// isMoreFiles reports whether the line of an event stands at a position that says how many files it
// leaves out.
func isMoreFiles(v *ahead.View, at int) bool {
	const and = "and "
	if !startsWith(v, at, and) {
		return false
	}
	digits := v.Skip(at+len(and), "0123456789")
	return digits > at+len(and) && startsWith(v, digits, " more file")
}

// startsWith reports whether words stand at a position, in any letter case of ASCII, and with any
// blanks between them.
func startsWith(v *ahead.View, at int, words string) bool {
	for i := range len(words) {
		switch {
		case v.Ended(at):
			return false
		case words[i] == ' ':
			next := skipBlanks(v, at)
			if next == at {
				return false
			}
			at = next
		case equalFold(v.S[at:at+1], words[i:i+1]):
			at++
		default:
			return false
		}
	}
	return true
}

// skipBlanks returns the position behind the blanks at a position, at most maxBlanks of them. A
// blank is a space of any width, or a tab.
func skipBlanks(v *ahead.View, at int) int {
	for range maxBlanks {
		switch c := v.Byte(at); {
		case c == ' ', c == '\t':
			at++
		case c < utf8.RuneSelf:
			return at
		default:
			r, size := v.Rune(at)
			if !unicode.Is(unicode.Zs, r) {
				return at
			}
			at += size
		}
	}
	return at
}

// mayBeEcho reports whether a line of a text may be one of an event, of which nothing else tells.
func mayBeEcho(text string) bool {
	for text != "" {
		line := text
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		v := ahead.View{S: line}
		at := v.Skip(0, lineMarks)
		isFirst := at < len(line) && ownFirsts[line[at]]
		if isFirst && (startsWith(&v, at, noKey) || startsOwn(&v, at)) {
			return true
		}
	}
	return false
}

// remove removes the text from At to a position.
func (e *echo) remove(end int) {
	if e.cut(&e.Cursor) {
		e.Buf = e.Buf[:end] + dropOpeners(e.Buf[end:])
		e.ends, e.sought = nil, end
	}
	e.cuts = true
	e.Skip(end)
}

// passEvent removes an event up to its end marker.
func (e *echo) passEvent() bool {
	if i := indexFold(e.Buf[e.At:], e.until); i >= 0 {
		e.Skip(e.At + i + len(e.until))
		e.until, e.after, e.begun = "", true, false
		return true
	}
	if e.Final {
		e.Skip(len(e.Buf))
	} else {
		e.Skip(max(e.At, len(e.Buf)-len(e.until)+1))
	}
	return false
}

// endsSoon reports whether an end marker follows within maxMention bytes.
func endsSoon(v *ahead.View, at int, marker string) bool {
	near := v.Within(at, maxMention)
	i := indexFold(near.S[min(at, len(near.S)):], marker)
	if i < 0 {
		near.Read(len(near.S) + 1)
	} else {
		near.Read(at + i + len(marker))
	}
	v.Join(near)
	return i >= 0
}

// markerAt returns the marker at a position, or "". The marker includes its nonce and the >>> that
// ends it if both are there.
func markerAt(v *ahead.View, at int) (marker string, isOpen bool) {
	for _, start := range [...]string{fenceOpen, fenceClose} {
		if !v.HasFold(at, start) {
			continue
		}
		line := v.Within(at, len(start)+maxNonce+len(fenceEnd))
		end := line.Any(at, "\n")
		i := strings.Index(line.S[at:end], fenceEnd)
		if i >= 0 {
			return v.S[at : at+i+len(fenceEnd)], start == fenceOpen
		}
		v.Join(line)
		return start, start == fenceOpen
	}
	return "", false
}

// endMarker returns the marker that ends the event which an opening marker begins.
func endMarker(opening string) string {
	return fenceClose + opening[len(fenceOpen):]
}

// indexFold returns the position of the first marker in a text, in any letter case of ASCII, or -1.
func indexFold(text, marker string) int {
	for at := 0; at+len(marker) <= len(text); at++ {
		i := strings.IndexByte(text[at:], marker[0])
		if at += i; i < 0 || at+len(marker) > len(text) {
			return -1
		}
		if equalFold(text[at:at+len(marker)], marker) {
			return at
		}
	}
	return -1
}

// equalFold reports whether two texts of one length are the same in any letter case of ASCII.
func equalFold(a, b string) bool {
	lower := func(c byte) byte {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// quoteMarks are what a model puts around a line when it quotes it.
const quoteMarks = "> |`*\t\r"
