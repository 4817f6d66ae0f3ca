package secret

import (
	"html"
	"strings"
	"unicode/utf8"
)

// This file decodes a text at one place. A program encodes a value, puts it into another text, and
// encodes that: JSON in a URL, a URL in an attribute, JSON in JSON. So each byte of an escape may
// be an escape itself:
//
//	%5Cu0026      of a URL is \u0026     of JSON is &
//	&amp;quot;    of markup is &quot;    of markup is "
//	%2526         of a URL is %26        of a URL is &
//
// What a place may mean after so many decodings is made of what it and the places behind it may
// mean after one less. Each is worked out once, see spelt.

const (
	maxEncoded  = 4   // times that a character may have been encoded
	maxSpelling = 128 // bytes of a text that stand for one character

	// maxReach is more bytes than are read behind a place to decode one character. It is so large
	// that the end of what decoded looks at is never met but where the text ends.
	maxReach = 2 * maxEncoded * maxSpelling
)

// A spelling is a character, or a byte of one, that may be meant at a place.
type spelling struct {
	bytes [utf8.UTFMax]byte
	size  uint8
	span  uint16 // bytes of the text that stand for it
}

// spellings are what may be meant at a place beside the byte that stands there. Those that are full
// take no more, as a front.
type spellings struct {
	all [16]spelling
	n   int
}

// add adds a spelling.
func (s *spellings) add(one spelling) {
	for i := range s.n {
		if s.all[i] == one {
			return
		}
	}
	if s.n < len(s.all) {
		s.all[s.n] = one
		s.n++
	}
}

// A spelt remembers what may be meant at some places of a buffer. Without it a run of backslashes
// would be read anew from each of them. The zero spelt is ready.
type spelt struct {
	places []spot
	used   bool
}

// A spot is what a spelt remembers of a place.
type spot struct {
	key  int // of the place and the times; 0: none
	seen int // the position behind the last byte that was read
	size int // of the text in which the place was
	spellings
}

const spots = 128 // of a spelt

// forget empties a spelt, because the positions in its buffer have changed.
func (s *spelt) forget() {
	if s.used {
		clear(s.places)
		s.used = false
	}
}

// held returns how many bytes a spelt takes.
func (s *spelt) held() int { return len(s.places) * 192 }

// mayEscape reports whether an escape may begin with a byte.
func mayEscape(c byte) bool { return escapes[c] || c == '\r' }

// decoded returns what may be meant at a position by a text that was encoded up to so many times,
// but for the byte itself.
func (r *reader) decoded(at, times int) spellings {
	if times == 0 || r.Ended(at) || !mayEscape(r.S[at]) {
		return spellings{}
	}
	var slot *spot
	key := (at+1)*(maxEncoded+1) + times
	if r.spelt != nil && r.spelt.places != nil {
		slot = &r.spelt.places[key%spots]
		if slot.key == key && r.knows(slot.seen, slot.size) {
			r.Read(slot.seen)
			return slot.spellings
		}
	}
	w := reader{View: r.Within(at, maxReach), spelt: r.spelt}
	d := decoder{reader: &w, from: at}
	for d.times < times {
		before := d.into.n
		d.nests = false
		d.escape(w.S[at], at+1)
		for i := range before {
			if s := &d.into.all[i]; s.size == 1 && mayEscape(s.bytes[0]) {
				d.escape(s.bytes[0], at+int(s.span))
			}
		}
		d.times++
		if !d.nests && d.into.n == before {
			break // and the next decoding would find nothing either
		}
	}
	r.Join(w.View)
	if r.spelt != nil && d.nests {
		if r.spelt.places == nil {
			r.spelt.places = make([]spot, spots)
		}
		r.spelt.used = true
		r.spelt.places[key%spots] = spot{key, w.Seen(), len(w.S), d.into}
	}
	return d.into
}

// A decoder decodes what begins at one position, one decoding after another.
type decoder struct {
	*reader

	from  int
	times int // that the text was decoded already
	nests bool
	into  spellings
}

// add adds a text that is meant up to a position.
func (d *decoder) add(part string, end int) {
	if span := end - d.from; span <= maxSpelling {
		s := spelling{size: uint8(len(part)), span: uint16(span)} //nolint:gosec // both are small
		copy(s.bytes[:], part)
		d.into.add(s)
	}
}

// addByte adds a byte.
func (d *decoder) addByte(c byte, end int) { d.add(string([]byte{c}), end) }

// addRune adds a character that UTF-8 has.
func (d *decoder) addRune(n, end int) {
	if n >= 0 && n <= utf8.MaxRune && utf8.ValidRune(rune(n)) { //nolint:gosec // it was compared
		d.add(string(rune(n)), end) //nolint:gosec // it was compared
	}
}

// bytes calls yield with each byte that may be meant at a position, and with where it ends. What a
// reader does not see before it does not count.
func (d *decoder) bytes(at int, yield func(c byte, end int)) {
	if at-d.from >= maxSpelling || d.Ended(at) {
		return
	}
	c := d.S[at]
	if isVerbatim(c) {
		yield(c, at+1)
		return
	}
	d.nests = true
	if c != '\\' {
		if next := d.transparentEnd(at); next > at {
			d.bytes(next, yield)
		}
	}
	yield(c, at+1)
	inner := d.decoded(at, d.times)
	for i := range inner.n {
		if s := &inner.all[i]; s.size == 1 {
			yield(s.bytes[0], at+int(s.span))
		}
	}
}

// escape adds what an escape stands for whose first byte is meant before a position.
func (d *decoder) escape(c byte, next int) {
	switch c {
	case '+':
		d.add(" ", next)
	case '\r':
		d.lineFeed(next)
	case '%', '=':
		d.digits(next, 16, 2, 0, func(n, end int) { d.addByte(byte(n), end) })
		if c == '%' {
			d.word(next, "u", func(end int) { d.digits(end, 16, 4, 0, d.addRune) })
		}
	case '&':
		d.entity(next)
	case '\\':
		d.bytes(next, d.backslash)
	}
}

// lineFeed adds the break of a line whose carriage return is meant before a position. Nothing
// stands between the two, not what a reader does not see either, so that a run of carriage returns
// is read once.
func (d *decoder) lineFeed(at int) {
	switch {
	case d.Ended(at) || at-d.from >= maxSpelling || d.S[at] == '\r':
		return
	case d.S[at] == '\n':
		d.add("\n", at+1)
		return
	case isVerbatim(d.S[at]):
		return
	}
	d.nests = true
	inner := d.decoded(at, d.times)
	for i := range inner.n {
		if s := &inner.all[i]; s.size == 1 && s.bytes[0] == '\n' {
			d.add("\n", at+int(s.span))
		}
	}
}

// digits calls yield with the number of so many digits at a position, to be added to what stands
// before them.
func (d *decoder) digits(at, base, count, before int, yield func(n, end int)) {
	if count == 0 {
		yield(before, at)
		return
	}
	d.bytes(at, func(c byte, end int) {
		if n := digit(c); n < base {
			d.digits(end, base, count-1, before*base+n, yield)
		}
	})
}

// number calls yield with the number at a position, of up to so many digits, that a byte ends.
func (d *decoder) number(at, base, most, before int, last byte, yield func(n, end int)) {
	d.bytes(at, func(c byte, end int) {
		if c == last && before >= 0 {
			yield(before, end)
		} else if n := digit(c); n < base && most > 0 {
			d.number(end, base, most-1, max(before, 0)*base+n, last, yield)
		}
	})
}

const none = -1 // no digit was read before

// digit returns the number of a hexadecimal digit, or a larger one.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return 16
}

// entities are the names that encoders of markup write behind the '&', in any letter case.
var entities = []struct{ name, text string }{
	{"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", `"`}, {"apos;", "'"}, {"nbsp;", " "},
}

// entity adds what the name or the number of a character in markup stands for.
func (d *decoder) entity(at int) {
	d.bytes(at, func(c byte, end int) {
		if c == '#' {
			d.number(end, 10, 8, none, ';', d.addRune)
			d.bytes(end, func(c byte, end int) {
				if c|0x20 == 'x' {
					d.number(end, 16, 8, none, ';', d.addRune)
				}
			})
			return
		}
		for _, e := range entities {
			if c|0x20 == e.name[0] {
				d.word(end, e.name[1:], func(end int) { d.add(e.text, end) })
			}
		}
		if alnum[c] {
			name := entityName{c}
			d.named(end, &name, 1)
		}
	})
}

// An entityName is the name of a character in markup, as far as it was read.
type entityName [32]byte

// named adds what a name stands for that has so many bytes before a position.
func (d *decoder) named(at int, name *entityName, n int) {
	d.bytes(at, func(c byte, end int) {
		switch {
		case c == ';':
			whole := "&" + string(name[:n]) + ";"
			if part := html.UnescapeString(whole); part != whole && len(part) <= utf8.UTFMax {
				d.add(part, end)
			}
		case alnum[c] && n < len(name):
			name[n] = c
			d.named(end, name, n+1)
		}
	})
}

// word calls yield with where a word ends at a position, in any letter case.
func (d *decoder) word(at int, word string, yield func(end int)) {
	if word == "" {
		yield(at)
		return
	}
	d.bytes(at, func(c byte, end int) {
		if c == word[0] || alnum[c] && c|0x20 == word[0] {
			d.word(end, word[1:], yield)
		}
	})
}

// backslash adds what an escape stands for that has a byte behind its backslash.
func (d *decoder) backslash(c byte, end int) {
	switch {
	case c == 'n', c == 't', c == 'r', c == 'b', c == 'f', c == 'a', c == 'v', c == 'e':
		d.addByte("\n\t\r\b\f\a\v\x1b"[strings.IndexByte("ntrbfave", c)], end)
	case c == 'x':
		d.digits(end, 16, 2, 0, func(n, end int) {
			d.addByte(byte(n), end)
			if n >= utf8.RuneSelf {
				d.addRune(n, end)
			}
		})
	case c == 'u':
		d.unicode(end)
	case c == 'U':
		d.digits(end, 16, 8, 0, d.addRune)
	case c >= '0' && c <= '3':
		if c == '0' && !d.isOctal(end) {
			d.addByte(0, end)
		}
		d.digits(end, 8, 2, int(c-'0'), func(n, end int) { d.addByte(byte(n), end) })
	case c > ' ' && c < 0x7F && !alnum[c]:
		d.addByte(c, end)
	}
}

// isOctal reports whether an octal digit may be meant at a position.
func (d *decoder) isOctal(at int) bool {
	is := false
	d.bytes(at, func(c byte, _ int) { is = is || c >= '0' && c <= '7' })
	return is
}

// unicode adds the character of the digits behind \u, or of two such escapes, of which JSON makes a
// character with a high number.
func (d *decoder) unicode(at int) {
	d.bytes(at, func(c byte, end int) {
		if c == '{' {
			d.number(end, 16, 7, none, '}', d.addRune)
		}
	})
	d.digits(at, 16, 4, 0, func(high, end int) {
		if high < 0xD800 || high >= 0xDC00 {
			d.addRune(high, end)
			return
		}
		d.word(end, `\u`, func(end int) {
			d.digits(end, 16, 4, 0, func(low, end int) {
				if low >= 0xDC00 && low < 0xE000 {
					d.addRune(0x10000+(high-0xD800)<<10+low-0xDC00, end)
				}
			})
		})
	})
}
