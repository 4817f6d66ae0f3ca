package secret

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
	"github.com/offshoot-sdk/offshoot/internal/text"
)

// Own is what a program masks beyond what is known here. A nil Own is nothing. It is safe for
// concurrent use.
type Own struct {
	values   map[head][]*group
	looks    [256]bool       // a value may begin with the byte, or with an escape that does
	firsts   [256]bool       // a value begins with the byte
	has      [256]bool       // a value has the byte
	pairs    pairs           // with which values begin
	heads    map[[2]byte]int // how many heads begin with a pair
	patterns []*regexp.Regexp
	beyond   int // how far values are looked for, see perByte
}

// perByte is how many bytes a spelling has at most for each byte of the longest value, beside
// ahead.Max. An escape that was encoded three times takes up to 14.
const perByte = 16

// Bounds of a value of the program's own, in bytes. What is shorter stands in any text by chance.
const (
	MinOwn = 4 // without outer space
	MaxOwn = 4096
)

// IsOwn reports whether a value is within the bounds of one of the program's own.
func IsOwn(value string) bool {
	return len(strings.TrimSpace(value)) >= MinOwn && len(value) <= MaxOwn
}

// NewOwn returns the Own of some values, each in all its forms, and of some patterns. It is nil if
// there are none.
func NewOwn(values []string, patterns []*regexp.Regexp) *Own {
	if len(values)+len(patterns) == 0 {
		return nil
	}
	o := &Own{
		values: make(map[head][]*group), heads: make(map[[2]byte]int), patterns: patterns,
	}
	var all [2][]string
	for _, text := range values {
		text = trimBreaks(text)
		all = addValue(all, newValue(text))
		for _, other := range rewritten(text) {
			all = addValue(all, newValue(other))
		}
		if folded := inKey(text); folded != text {
			all = addValue(all, newValue(folded))
		}
		for _, digits := range base64Of(text) {
			all = addValue(all, value{digits, true})
		}
	}
	for i, list := range all {
		slices.Sort(list)
		o.plant(i == 1, slices.Compact(list))
	}
	if len(values) > 0 {
		for c := range o.looks {
			o.looks[c] = o.firsts[c] || mayEscape(byte(c))
		}
	}
	return o
}

// addValue adds a value to those that wrap, which are the second, or to the others.
func addValue(all [2][]string, v value) [2][]string {
	if v.wraps {
		all[1] = append(all[1], v.text)
	} else {
		all[0] = append(all[0], v.text)
	}
	return all
}

// plant plants the groups of values, which are sorted and differ.
func (o *Own) plant(wraps bool, list []string) {
	for _, text := range list {
		o.beyond = max(o.beyond, perByte*len(text))
		for i := range len(text) {
			o.has[text[i]] = true
		}
	}
	for len(list) > 0 {
		h := head([]byte(list[0]))
		n := 1
		for n < len(list) && list[n][:len(h)] == list[0][:len(h)] {
			n++
		}
		if o.values[h] == nil {
			o.heads[[2]byte(h[:])]++
			o.firsts[h[0]] = true
			o.pairs.add(h[0], h[1])
		}
		o.values[h] = append(o.values[h], groupsOf(list[:n], wraps)...)
		list = list[n:]
	}
}

// rewritten returns a value as programs write it that change its blanks or double its quotes: tabs
// for blanks and blanks for tabs, one blank for several, blanks of other widths or with a
// backslash, a quote within the quotes of a shell, of SQL, of a table or of a typesetter, and all
// of its lines in one.
func rewritten(v string) (list []string) {
	forms := []string{v}
	if strings.ContainsAny(v, " \t") {
		forms = append(forms,
			strings.ReplaceAll(v, " ", "\t"), strings.ReplaceAll(v, "\t", " "),
			strings.ReplaceAll(v, " ", "\u00a0"), oneBlank(v))
		for _, blank := range blankForms {
			forms = append(forms, strings.ReplaceAll(v, " ", blank))
		}
	}
	for _, form := range forms {
		list = append(list, form)
		for _, quote := range quoteForms {
			list = append(list, strings.ReplaceAll(form, quote.as, quote.to))
		}
	}
	if backslashed := shellEscapes.Replace(v); backslashed != v {
		list = append(list, backslashed)
	}
	list = append(list, onOneLine(v)...)
	return slices.DeleteFunc(list, func(form string) bool { return form == v || !IsOwn(form) })
}

// onOneLine returns a value of several lines as it is where a text has been made one line, such as
// a label: with a blank for each break of a line and its indent, and without them. Values that
// would be another word then have no such form.
func onOneLine(v string) (list []string) {
	if strings.IndexFunc(v, isBreak) < 0 {
		return nil
	}
	line := text.Line(v)
	if len(line) < wraps {
		return nil
	}
	list = append(list, line, text.Line(strings.ReplaceAll(flatten(v), "\n", " ")))
	joined := strings.Map(func(r rune) rune {
		if isBreak(r) {
			return -1
		}
		return r
	}, v)
	if len(joined) >= leastJoined {
		list = append(list, joined)
	}
	return list
}

// leastJoined is how many bytes a value has at least whose lines are looked for without a blank.
const leastJoined = 2 * wraps

// blankForms are the ways to write a blank for a shell, in French, and in the scripts of East Asia.
var blankForms = [...]string{`\ `, "\u202f", "\u2009", "\u3000"}

// shellEscapes writes a value as a shell does without quotes.
var shellEscapes = strings.NewReplacer(
	" ", `\ `, "'", `\'`, `"`, `\"`, "(", `\(`, ")", `\)`, "&", `\&`, ";", `\;`, "|", `\|`, "$", `\$`,
	"`", "\\`", "<", `\<`, ">", `\>`, "*", `\*`, "?", `\?`, "!", `\!`, "#", `\#`, `\`, `\\`, "{", `\{`,
	"}", `\}`, "[", `\[`, "]", `\]`, "~", `\~`, "^", `\^`)

// quoteForms are the ways to write a quote between two of its kind.
var quoteForms = []struct{ as, to string }{
	{`'`, `'\''`},
	{`'`, `'"'"'`},
	{`'`, `''`},
	{`"`, `""`},
	{`"`, `"'"'"`},
	{`'`, "\u2019"},
	{`'`, "\u2018"},
	{`"`, "\u201c"},
	{`"`, "\u201d"},
}

// oneBlank returns a text with one blank for each run of blanks.
func oneBlank(text string) string {
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		if c == '\t' {
			c = ' '
		}
		if c != ' ' || i == 0 || text[i-1] != ' ' && text[i-1] != '\t' {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// inKey returns a value as it stands in the key of a session, which is in lower case: a key that a
// person or a model has made up may have a secret within it. It returns a value as it is that may
// not stand in a key, or is so short that it would be another word then.
func inKey(v string) string {
	const least = 6 // bytes
	if len(v) < least || !hasOnly(v, keyBytes) {
		return v
	}
	return strings.ToLower(v)
}

// keyBytes are what the key of a session has.
var keyBytes = letters("A-Za-z0-9._~@+=:-")

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

// MaskOwn masks what is the program's own, and nothing else.
func (o *Own) MaskOwn(s string) string { return o.apply(s) }

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
	p := o.Pass()
	return p.lines(p.values(s, true), true)
}

// An OwnPass masks the program's own secrets in a text that comes in pieces. What its methods
// return, one after another, is the same for all pieces. The zero OwnPass masks nothing.
//
// It holds back what may be the beginning of a value and, if there are patterns, a line, of at most
// ahead.Max bytes, and of a value perByte more for each byte of the longest. A pattern is looked
// for within a line. Of a longer line, each ahead.Max bytes are looked at on their own.
type OwnPass struct {
	own    *Own
	cursor ahead.Cursor
	spelt  spelt  // of the positions in the cursor
	hopped hopped // of the same
	sieves sieves // of the same
	unseen unseen // of the same
	gaps   gaps   // of the same
	fronts fronts // see reader.followStates
	line   []byte
}

// Pass returns a new OwnPass.
func (o *Own) Pass() OwnPass {
	p := OwnPass{own: o}
	p.cursor.Beyond = o.beyond
	return p
}

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
func (p *OwnPass) Held() int {
	return p.cursor.Held() + p.spelt.held() + p.hopped.held() + p.sieves.held() + p.unseen.held() +
		p.gaps.held() + p.fronts.held() + cap(p.line)
}

// values masks the values in a piece.
func (p *OwnPass) values(piece string, final bool) string {
	c := &p.cursor
	if !c.Begin(piece, final) {
		return ""
	}
	p.spelt.forget()
	p.hopped.forget()
	p.unseen.forget()
	p.gaps.forget()
	for {
		if c.At = p.own.lookAt(c.Buf, c.At); c.At == len(c.Buf) {
			break
		}
		r := reader{
			View: c.View(), spelt: &p.spelt, hopped: &p.hopped, sieves: &p.sieves,
			unseen: &p.unseen, gaps: &p.gaps, has: &p.own.has, fronts: &p.fronts,
		}
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
	kept, moved := c.Finish(c.At)
	p.sieves.move(moved)
	return kept
}

// lookAt returns the first position from one on at which a value may begin, or the end. Most of a
// text is passed here: no value begins with two bytes there that stand for themselves alone.
func (o *Own) lookAt(buf string, at int) int {
	for ; at < len(buf); at++ {
		c := buf[at]
		if !o.looks[c] {
			continue
		}
		if at+1 == len(buf) || !isVerbatim(buf[at+1]) || o.pairs.has(c, buf[at+1]) ||
			!isVerbatim(c) && o.mayDecode(buf, at) || o.mayPart(buf, at) {
			break
		}
	}
	return at
}

// mayPart reports whether a value may begin with a byte at a position and one behind a blank.
func (o *Own) mayPart(buf string, at int) bool {
	return buf[at+1] == ' ' &&
		(at+2 == len(buf) || inWord(buf[at+2]) && o.pairs.has(buf[at], buf[at+2]))
}

// mayDecode reports whether a value may begin with an escape at a position, behind which a byte
// stands for itself alone. In code that is rare, which saves a fifth of the time there. Where a
// value begins with a space or a line feed, each break of a line may stand for that.
func (o *Own) mayDecode(buf string, at int) bool {
	next := buf[at+1]
	if o.firsts[' '] || o.firsts['\n'] {
		return true
	}
	switch buf[at] {
	case '=', '%':
		if !hex[next] {
			return buf[at] == '%' && next|0x20 == 'u'
		}
		if at+2 == len(buf) || !isVerbatim(buf[at+2]) {
			return true
		}
		return hex[buf[at+2]] && o.looks[digit(next)<<4+digit(buf[at+2])]
	case '&':
		return alnum[next] || next == '#'
	case '+': // a space
		return false
	}
	return true
}

// end returns where the longest value ends that begins at a position, or 0.
func (o *Own) end(r *reader, at int) int {
	var s starts
	const size = len(head{})
	if at+size <= len(r.S) && areVerbatim(r.S[at:at+size]) &&
		strings.IndexByte(r.S[at+1:at+size], ' ') < 0 {
		r.Read(at + size) // and that is all it can mean
		if h := head([]byte(r.S[at : at+size])); o.pairs.has(h[0], h[1]) {
			s.addHead(h)
		}
	} else {
		o.findHeads(r, at, &s)
	}
	end := 0
	for _, h := range s.heads[:s.found] {
		for _, g := range o.values[h] {
			end = max(end, r.groupEnd(at, g))
		}
	}
	return end
}

// areVerbatim reports whether each byte of a text stands for itself alone.
func areVerbatim(text string) bool {
	for i := range len(text) {
		if !isVerbatim(text[i]) {
			return false
		}
	}
	return true
}

// A head is how a value begins.
type head [3]byte

// pairs is a set of two bytes each.
type pairs [256][4]uint64

func (p *pairs) add(a, b byte) { p[a][b>>6] |= 1 << (b & 63) }

func (p *pairs) has(a, b byte) bool { return p[a][b>>6]&(1<<(b&63)) != 0 }

// A start is the beginning of a head that may be meant before a position.
type start struct {
	span uint32 // from the place on
	n    uint8  // bytes of the head
	head head
}

// starts are the starts at a place, each behind the one that it goes on from, and the heads that
// they lead to. Those that are full take no more, as a front.
type starts struct {
	all   [64]start
	n     int
	last  [64]uint8 // one more than the index of the last start of a span modulo this; 0: none
	heads [16]head
	found int
}

// add adds a start.
func (s *starts) add(one start) {
	last := &s.last[int(one.span)%len(s.last)]
	if s.n == len(s.all) || *last > 0 && (s.all[*last-1] == one ||
		slices.Contains(s.all[:s.n], one)) {
		return
	}
	s.all[s.n] = one
	s.n++
	*last = uint8(s.n) //nolint:gosec // it is at most 64
}

// addHead adds a head.
func (s *starts) addHead(h head) {
	if s.found < len(s.heads) && !slices.Contains(s.heads[:s.found], h) {
		s.heads[s.found] = h
		s.found++
	}
}

// findHeads finds the heads that may be meant at a place.
func (o *Own) findHeads(r *reader, at int, s *starts) {
	o.lengthen(r, at, start{}, s)
	for i := 0; i < s.n; i++ {
		if one := s.all[i]; one.n < 2 || !o.hasAll(s, one) {
			o.lengthen(r, at, one, s)
		}
	}
}

// hasAll reports whether the starts have each head that a start of two bytes may lead to.
func (o *Own) hasAll(s *starts, one start) bool {
	n := 0
	for _, h := range s.heads[:s.found] {
		if [2]byte(h[:]) == [2]byte(one.head[:]) {
			n++
		}
	}
	return n > 0 && n == o.heads[[2]byte(one.head[:])]
}

// lengthen adds the starts that are longer than one by what may be meant behind it, and with which
// a value begins.
func (o *Own) lengthen(r *reader, at int, one start, s *starts) {
	is := hopsWithin
	if one.n == 0 {
		is = hopsFirst
	}
	hops := r.hops(at+int(one.span), is)
	for i := range hops {
		h, span := one.head, int(one.span)+hops[i].span
		n := int(one.n) + copy(h[one.n:], hops[i].part())
		switch {
		case n == len(h) && s.found > 0 && s.heads[s.found-1] == h:
		case n == len(h):
			if _, ok := o.values[h]; ok {
				s.addHead(h)
			}
		case n == 1 && o.firsts[h[0]], n == 2 && o.pairs.has(h[0], h[1]):
			s.add(start{uint32(span), uint8(n), h}) //nolint:gosec // it is a part of a View
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
