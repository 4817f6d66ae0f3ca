package secret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// Own is what a program masks beyond what is known here. A nil Own is nothing. It is safe for
// concurrent use.
type Own struct {
	forms    [256][]string // of the values, by their first byte, the longest first
	patterns []*regexp.Regexp
}

// NewOwn returns the Own of some values, each in all its forms, and of some patterns. It is nil if
// there are none.
func NewOwn(values []string, patterns []*regexp.Regexp) *Own {
	if len(values)+len(patterns) == 0 {
		return nil
	}
	o := &Own{patterns: patterns}
	for _, v := range values {
		for _, form := range formsOf(v) {
			list := &o.forms[form[0]]
			if !slices.Contains(*list, form) {
				*list = append(*list, form)
			}
		}
	}
	for _, list := range o.forms {
		slices.SortStableFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return o
}

// formsOf returns how a value is written: as it is, in a URL, in JSON, in JSON within JSON, in
// HTML, and in base64, there also as the middle of a longer text.
func formsOf(v string) []string {
	forms := append([]string{v, html.EscapeString(v)}, urlForms(v)...)
	for _, once := range jsonForms(v) {
		forms = append(append(forms, once), jsonForms(once)...)
	}
	const least = 6 // bytes, below which a part of its base64 may be a part of something else
	if len(v) < least {
		return forms
	}
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

// urlForms returns how a value is written in a URL: by package url, by encodeURIComponent of a
// browser, and with digits in lower case.
func urlForms(v string) (forms []string) {
	query := url.QueryEscape(v)
	browser := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").
		Replace(query)
	for _, form := range []string{query, url.PathEscape(v), browser} {
		forms = append(forms, form, lowerEscapes.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

var lowerEscapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// jsonForms returns how a value is written in JSON: with and without escapes of HTML, of slashes
// and of what is not ASCII, as the encoders of other languages write it.
func jsonForms(v string) (forms []string) {
	for _, escapeHTML := range []bool{true, false} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escapeHTML)
		if e.Encode(v) != nil {
			continue
		}
		form := strings.TrimSuffix(b.String(), "\n")
		form = form[1 : len(form)-1]
		for _, form := range []string{form, strings.ReplaceAll(form, "/", `\/`)} {
			forms = append(forms, form, asciiJSON(form, `\u%04x`), asciiJSON(form, `\u%04X`))
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// asciiJSON escapes what is not ASCII in the inside of a JSON string.
func asciiJSON(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, format, unit)
		}
	}
	return b.String()
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
func (p *OwnPass) Held() int { return p.cursor.Held() + cap(p.line) }

// values masks the values in a piece.
func (p *OwnPass) values(piece string, final bool) string {
	c := &p.cursor
	if !c.Begin(piece, final) {
		return ""
	}
	for c.At < len(c.Buf) {
		list := p.own.forms[c.Buf[c.At]]
		if len(list) == 0 {
			c.At++
			continue
		}
		v := c.View()
		found := 0
		for _, form := range list {
			if v.Has(c.At, form) {
				found = len(form)
				break
			}
		}
		if v.Waits() {
			break
		}
		if found == 0 {
			c.At++
			continue
		}
		c.Keep(c.At)
		c.Write("***")
		c.Skip(c.At + found)
	}
	kept, _ := c.Finish(c.At)
	return kept
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
// something, or all of it.
func (o *Own) match(line string) string {
	for _, re := range o.patterns {
		found := re.FindAllStringSubmatchIndex(line, -1)
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
			if start < from || end == start {
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
