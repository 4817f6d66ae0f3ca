package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// Own is what a program masks beyond what is known here. A nil Own is nothing. It is safe for
// concurrent use.
type Own struct {
	values   map[head][]value
	looks    [256]bool        // a value may begin with the byte, or with an escape that does
	firsts   [256]bool        // a value begins with the byte
	pairs    map[[2]byte]bool // with which values begin
	patterns []*regexp.Regexp
}

// NewOwn returns the Own of some values, each in all its forms, and of some patterns. It is nil if
// there are none.
func NewOwn(values []string, patterns []*regexp.Regexp) *Own {
	if len(values)+len(patterns) == 0 {
		return nil
	}
	o := &Own{
		values: make(map[head][]value), pairs: make(map[[2]byte]bool), patterns: patterns,
	}
	for _, text := range values {
		o.add(newValue(text))
		for _, digits := range base64Of(text) {
			o.add(value{digits, true})
		}
	}
	if len(values) > 0 {
		for c := range o.looks {
			o.looks[c] = o.firsts[c] || mayEscape(byte(c))
		}
	}
	return o
}

// add adds a value.
func (o *Own) add(v value) {
	h := head([]byte(v.text))
	if !slices.Contains(o.values[h], v) {
		o.values[h] = append(o.values[h], v)
	}
	o.firsts[h[0]], o.pairs[[2]byte(h[:])] = true, true
}

// base64Of returns the digits of a value in base64 that depend on nothing else, also where it is
// the middle of a longer text.
func base64Of(v string) []string {
	const least = 6 // bytes, below which a part of its base64 may be a part of something else
	if len(v) < least {
		return nil
	}
	var forms []string
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			all := e.EncodeToString(append(make([]byte, before), v...))
			from := (before*8 + 5) / 6        // the first digit that is of the value alone
			to := ((before + len(v)) * 8) / 6 // and the one behind the last
			forms = append(forms, all[from:to])
		}
	}
	return forms
}

// Mask masks what is the program's own, and then as [Mask] does.
func (o *Own) Mask(s string) string { return Mask(o.apply(s)) }

// MaskJSON is [MaskJSON] with what is the program's own.
func (o *Own) MaskJSON(src string, clean func(string) string) (out string, masked bool) {
	if o == nil {
		return MaskJSON(src, clean)
	}
	own := false
	out, masked = MaskJSON(src, func(s string) string {
		s = clean(s)
		shown := o.apply(s)
		own = own || shown != s
		return shown
	})
	return out, masked || own
}

// apply masks what is the program's own.
func (o *Own) apply(s string) string {
	if o == nil || s == "" {
		return s
	}
	p := OwnPass{own: o}
	return p.Write(s) + p.Close()
}

// An OwnPass masks the program's own secrets in a text that comes in pieces. What its methods
// return, one after another, is the same for all pieces. The zero OwnPass masks nothing.
//
// It holds back what may be the beginning of a value and, if there are patterns, a line, of at most
// ahead.Max bytes. A pattern is looked for within a line. Of a longer line, each ahead.Max bytes
// are looked at on their own.
type OwnPass struct {
	own    *Own
	cursor ahead.Cursor
	spelt  spelt // of the positions in the cursor
	line   []byte
}

// Pass returns a new OwnPass.
func (o *Own) Pass() OwnPass { return OwnPass{own: o} }

// Write takes the next piece of the text and returns what may be shown now.
func (p *OwnPass) Write(piece string) string {
	if p.own == nil {
		return piece
	}
	return p.lines(p.values(piece, false), false)
}

// Close ends the text and returns the rest of it.
func (p *OwnPass) Close() string {
	if p.own == nil {
		return ""
	}
	return p.lines(p.values("", true), true)
}

// Held returns how many bytes are kept between two pieces.
func (p *OwnPass) Held() int { return p.cursor.Held() + p.spelt.held() + cap(p.line) }

// values masks the values in a piece.
func (p *OwnPass) values(piece string, final bool) string {
	c := &p.cursor
	if !c.Begin(piece, final) {
		return ""
	}
	p.spelt.forget()
	for c.At < len(c.Buf) {
		if !p.own.looks[c.Buf[c.At]] {
			c.At++
			continue
		}
		r := reader{View: c.View(), spelt: &p.spelt}
		end := p.own.end(&r, c.At)
		if r.Waits() {
			break
		}
		if end == 0 {
			c.At++
			continue
		}
		c.Keep(c.At)
		c.Write("***")
		c.Skip(end)
	}
	kept, _ := c.Finish(c.At)
	return kept
}

// end returns where the longest value ends that begins at a position, or 0.
func (o *Own) end(r *reader, at int) int {
	var s starts
	s.add(start{at: at})
	end := 0
	for i := 0; i < s.n; i++ {
		one := s.all[i]
		switch {
		case one.n == 1 && !o.firsts[one.head[0]], one.n == 2 && !o.pairs[[2]byte(one.head[:])]:
		case one.n == len(one.head):
			if s.isNew(i) {
				for _, v := range o.values[one.head] {
					end = max(end, r.valueEnd(at, v))
				}
			}
		default:
			o.lengthen(r, one, &s)
		}
	}
	return end
}

// A head is how a value begins.
type head [3]byte

// A start is the beginning of a head that may be meant before a position.
type start struct {
	head head
	n    int // bytes of it
	at   int
}

// starts are the starts at a place, each behind the one that it goes on from. Those that are full
// take no more, as a front.
type starts struct {
	all [64]start
	n   int
}

// add adds a start.
func (s *starts) add(one start) {
	if s.n < len(s.all) && !slices.Contains(s.all[:s.n], one) {
		s.all[s.n] = one
		s.n++
	}
}

// isNew reports whether no start before one of them has the same head.
func (s *starts) isNew(i int) bool {
	return !slices.ContainsFunc(s.all[:i], func(other start) bool {
		return other.n == s.all[i].n && other.head == s.all[i].head
	})
}

// lengthen adds the starts that are longer than one by what may be meant behind it.
func (o *Own) lengthen(r *reader, one start, s *starts) {
	longer := func(part string, end int) {
		next := start{one.head, one.n, end}
		next.n += copy(next.head[one.n:], part)
		s.add(next)
	}
	if c := r.Byte(one.at); isVerbatim(c) {
		longer(r.S[one.at:one.at+1], one.at+1)
		return
	}
	var now front
	now.add(one.at)
	if one.n > 0 {
		r.passUnseen(one.at, true, &now)
	}
	for _, at := range now.at[:now.n] {
		if !r.Ended(at) {
			longer(r.S[at:at+1], at+1)
		}
		meant := r.decoded(at, maxEncoded)
		for i := range meant.n {
			m := &meant.all[i]
			longer(m.text(), at+int(m.span))
			if m.bytes[0] == '\n' {
				longer(" ", at+int(m.span))
			}
		}
		if end := r.lineBreak(at); end > at {
			longer(" ", end)
		}
	}
}

// lines masks what the patterns find in the lines that have come.
func (p *OwnPass) lines(piece string, final bool) string {
	if len(p.own.patterns) == 0 {
		return piece
	}
	p.line = append(p.line, piece...)
	var out []byte
	rest := p.line
	for len(rest) > 0 {
		end := slices.Index(rest[:min(len(rest), ahead.Max)], '\n')
		isLine := end >= 0
		if !isLine {
			if end = min(len(rest), ahead.Max); end < ahead.Max && !final {
				break
			}
		}
		out = append(out, p.own.match(string(rest[:end]))...)
		if rest = rest[end:]; isLine {
			out, rest = append(out, '\n'), rest[1:]
		}
	}
	p.line = append(p.line[:0], rest...)
	if cap(p.line) > 4*ahead.Max {
		p.line = slices.Clip(p.line)
	}
	return string(out)
}

// match masks what the patterns find in a line: what the first group has matched that matched
// something, or all of it. What a reader does not see in the line hides nothing from them.
func (o *Own) match(line string) string {
	for _, re := range o.patterns {
		seen, places := seenOf(line)
		found := re.FindAllStringSubmatchIndex(seen, -1)
		if len(found) == 0 {
			continue
		}
		var out strings.Builder
		from := 0
		for _, at := range found {
			start, end := at[0], at[1]
			for i := 2; i < len(at); i += 2 {
				if at[i] >= 0 && at[i+1] > at[i] {
					start, end = at[i], at[i+1]
					break
				}
			}
			if end == start {
				continue
			}
			if places != nil {
				start, end = places[start], places[end-1]+1
			}
			if start < from {
				continue
			}
			out.WriteString(line[from:start])
			out.WriteString("***")
			from = end
		}
		out.WriteString(line[from:])
		line = out.String()
	}
	return line
}

// seenOf returns what a reader sees of a line, and where each byte of that stands in it. The places
// are nil if they are the same.
func seenOf(line string) (seen string, places []int) {
	if seen = plain(line); len(seen) == len(line) {
		return line, nil
	}
	r := reader{}
	r.S = line
	places = make([]int, 0, len(seen))
	for i := 0; i < len(line); {
		if next := r.transparentEnd(i); next > i {
			i = next
			continue
		}
		places = append(places, i)
		i++
	}
	return seen, places
}
