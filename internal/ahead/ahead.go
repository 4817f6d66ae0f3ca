package ahead

import (
	"strings"
	"unicode/utf8"
)

// Max is how far a View looks ahead, in bytes. A place that is further away is to it as if the
// text ended before. That holds for the whole text as well, so that pieces make no difference.
const Max = 16 << 10

// A View is what may be read of a text from some place on. It notes how far it was read. Places
// are positions in S; a place at or behind its end is allowed, and reads as the end.
type View struct {
	S    string
	seen int  // the position behind the last byte that was read; over len(S): the end was met
	open bool // more of the text may follow, and S is not full

	awaits bool // see Await
	full   bool // S has as many bytes as a View has at most
}

// Waits reports whether what was read depends on what has not come yet.
func (v *View) Waits() bool { return v.open && (v.Ends() || v.awaits) }

// Ends reports whether the end of S was met.
func (v *View) Ends() bool { return v.seen > len(v.S) }

// Full reports whether S has as many bytes as a View has at most, so that the text may go on behind
// it in any case.
func (v *View) Full() bool { return v.full }

// MayGrow reports whether S may have more bytes once more of the text has come.
func (v *View) MayGrow() bool { return v.open }

// IsWhole reports whether the text ends where S does.
func (v *View) IsWhole() bool { return !v.open && !v.full }

// Await notes that it depends on what has not come yet when to decide, but not what.
func (v *View) Await() { v.awaits = true }

// Seen returns the position behind the last byte that was read.
func (v *View) Seen() int { return v.seen }

// Read notes that the bytes before a position were read, which S has or which would follow it.
func (v *View) Read(before int) { v.seen = max(v.seen, min(before, len(v.S)+1)) }

// Reread forgets what was read, but for the bytes before a position.
func (v *View) Reread(before int) { v.seen = before }

// Ended reports whether at is at the end of S or behind it.
func (v *View) Ended(at int) bool {
	v.Read(at + 1)
	return at >= len(v.S)
}

// Byte returns the byte at a position, or 0 at the end.
func (v *View) Byte(at int) byte {
	if v.Ended(at) {
		return 0
	}
	return v.S[at]
}

// Rune returns the rune at a position and its size in bytes, which is 0 at the end.
func (v *View) Rune(at int) (rune, int) {
	if v.Ended(at) {
		return utf8.RuneError, 0
	}
	if c := v.S[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	if !utf8.FullRuneInString(v.S[at:]) {
		v.Read(len(v.S) + 1)
	}
	r, size := utf8.DecodeRuneInString(v.S[at:])
	v.Read(at + size)
	return r, size
}

// Any returns the position of the first of some ASCII characters from at on, or the end.
func (v *View) Any(at int, chars string) int {
	i := -1
	if at <= len(v.S) {
		if len(chars) == 1 {
			i = strings.IndexByte(v.S[at:], chars[0])
		} else {
			i = strings.IndexAny(v.S[at:], chars)
		}
	}
	if i < 0 {
		v.Read(len(v.S) + 1)
		return len(v.S)
	}
	v.Read(at + i + 1)
	return at + i
}

// Has reports whether a word stands at a position.
func (v *View) Has(at int, word string) bool {
	for i := range len(word) {
		if v.Ended(at+i) || v.S[at+i] != word[i] {
			return false
		}
	}
	return true
}

// HasFold reports whether a word of lower-case ASCII stands at a position, in any letter case.
func (v *View) HasFold(at int, word string) bool {
	for i := range len(word) {
		if v.Ended(at + i) {
			return false
		}
		c := v.S[at+i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// Skip returns the position of the first byte from at on that is none of some ASCII characters.
func (v *View) Skip(at int, chars string) int {
	for !v.Ended(at) && strings.IndexByte(chars, v.S[at]) >= 0 {
		at++
	}
	return at
}

// Break returns the position behind the line break at a position, or at if none stands there.
func (v *View) Break(at int) int {
	if v.Has(at, "\r\n") {
		return at + 2
	}
	if v.Byte(at) == '\n' {
		return at + 1
	}
	return at
}

// Within returns a View of S that ends n bytes behind a position. What it reads must be noted with
// Join.
func (v *View) Within(at, n int) View {
	if at+n < len(v.S) {
		return View{S: v.S[:at+n]}
	}
	return View{S: v.S, open: true}
}

// Join notes what a View from Within has read.
func (v *View) Join(w View) {
	if w.open || !w.Ends() {
		v.Read(w.seen)
	} else {
		v.Read(len(w.S))
	}
}

// A Cursor walks a text that comes in pieces. What it has passed is kept, replaced or removed.
type Cursor struct {
	Buf   string // what has come and is not passed, with some bytes before it
	At    int    // the position in Buf that is looked at
	Final bool   // nothing follows Buf

	Behind int // how many bytes before At stay in Buf
	Beyond int // how many bytes more than Max a View looks ahead

	// Map, unless it is nil, is applied to what is kept.
	Map func(string) string

	from int // Buf[from:At] is kept and not in out yet; from may be over At, see Send
	out  []byte
	held []byte // between two pieces: what Buf had
	need int    // the length of held from which on it is worth another look
	tail [utf8.UTFMax]byte
	size int // of tail
}

// Begin takes the next piece. It reports false if nothing can be decided yet.
func (c *Cursor) Begin(piece string, final bool) bool {
	c.Final = final
	if len(c.held) == 0 {
		c.Buf = piece
		return true
	}
	if !final && len(c.held)+len(piece) < c.need {
		c.held = append(c.held, piece...)
		return false
	}
	c.Buf = string(append(c.held, piece...))
	return true
}

// View returns a View from At on.
func (c *Cursor) View() View {
	most := Max + c.Beyond
	end := min(len(c.Buf), c.At+most)
	full := end-c.At == most
	return View{S: c.Buf[:end], seen: c.At, open: !c.Final && !full, full: full}
}

// Keep keeps what lies before a position.
func (c *Cursor) Keep(before int) {
	if before > c.from {
		c.out = append(c.out, c.mapped(before)...)
		c.from = before
	}
}

// mapped returns the text before a position that is not in out yet.
func (c *Cursor) mapped(before int) string {
	if text := c.Buf[c.from:before]; c.Map == nil {
		return text
	}
	return c.Map(c.Buf[c.from:before])
}

// Write puts a text behind what was kept.
func (c *Cursor) Write(text string) { c.out = append(c.out, text...) }

// Skip removes what lies between what was kept and a position, which may be At or before, and
// moves there.
func (c *Cursor) Skip(to int) {
	c.At = to
	c.from = max(c.from, to)
}

// Kept returns the position up to which the text was kept or removed.
func (c *Cursor) Kept() int { return c.from }

// Tail returns the last bytes of what stays before At, at most four: they hold any rune. With a Map
// it keeps that text first, because they are what the Map leaves of it.
func (c *Cursor) Tail() string {
	if c.Map != nil {
		c.Keep(c.At)
	}
	if c.At-c.from >= utf8.UTFMax {
		return c.Buf[c.At-utf8.UTFMax : c.At]
	}
	last := string(c.tail[:c.size]) + string(c.out[max(0, len(c.out)-utf8.UTFMax):])
	if c.At > c.from {
		last += c.Buf[c.from:c.At]
	}
	return last[max(0, len(last)-utf8.UTFMax):]
}

// littleWaits is how much of a text waits for another look for an eighth of it to come. Of what is
// more, half has to come: each look may begin again, and text that waits long is not shown soon.
const littleWaits = 2 << 10

// Finish ends the work on a piece. It returns what was kept, and holds the text from a position on
// for the next piece, which is At or before. It returns by how much positions in Buf move down.
func (c *Cursor) Finish(hold int) (kept string, moved int) {
	if len(c.out) == 0 {
		if hold > c.from {
			kept, c.from = c.mapped(hold), hold
		}
	} else {
		c.Keep(hold)
		kept = string(c.out)
	}
	c.remember(kept)
	if c.out = c.out[:0]; cap(c.out) > 4*Max {
		c.out = nil
	}
	moved = max(0, min(hold, c.At)-c.Behind)
	rest := c.Buf[moved:]
	c.held = append(c.held[:0], rest...)
	if cap(c.held) > 8*Max {
		c.held = append([]byte(nil), c.held...)
	}
	waiting := len(c.Buf) - min(hold, c.At)
	c.need = len(rest) + 1 + waiting/8 + max(0, waiting-littleWaits)*3/8
	c.At -= moved
	c.from = max(c.from-moved, 0)
	c.Buf = ""
	return kept, moved
}

// Held returns how many bytes the Cursor keeps between two pieces.
func (c *Cursor) Held() int { return cap(c.held) + cap(c.out) }

// remember notes the last bytes of what was kept.
func (c *Cursor) remember(kept string) {
	if len(kept) < utf8.UTFMax {
		kept = string(c.tail[:c.size]) + kept
		kept = kept[max(0, len(kept)-utf8.UTFMax):]
	}
	c.size = copy(c.tail[:], kept[max(0, len(kept)-utf8.UTFMax):])
}
