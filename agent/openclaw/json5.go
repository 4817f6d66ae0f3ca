package openclaw

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// Bounds of a file.
const (
	maxFile  = 4 << 20 // bytes
	maxDepth = 100     // of objects and lists in one another
	maxName  = 1000    // bytes of the name of a member: each mistake below it repeats the name
)

// A kind is what a value of a file is.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

// A value is one value of a file, with the place where it begins. Line and column begin with 1; a
// column is one character.
type value struct {
	kind   kind
	on     bool
	num    float64
	str    string
	items  []*value
	fields []field // in the order of the file; of several with one name the last one counts
	line   int
	column int

	names map[string]*value // of a large object that is sealed
}

// A field is a member of an object.
type field struct {
	name  string
	value *value
	line  int // of the name
	col   int
}

// get returns the member of a name, nil if there is none.
func (v *value) get(name string) *value {
	if v == nil || v.kind != kindObject {
		return nil
	}
	if v.names != nil {
		return v.names[name]
	}
	for _, f := range slices.Backward(v.fields) {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// seal has get find the members of large objects without reading all of them. A value that is
// sealed is not changed any more.
func (v *value) seal() {
	const large = 16
	if len(v.fields) > large {
		v.names = v.byName()
	}
	for _, f := range v.fields {
		f.value.seal()
	}
	for _, x := range v.items {
		x.seal()
	}
}

// set sets a member.
func (v *value) set(name string, to *value) {
	v.drop(name)
	v.fields = append(v.fields, field{name, to, to.line, to.column})
}

// drop removes a member.
func (v *value) drop(name string) {
	var rest []field
	for _, f := range v.fields {
		if f.name != name {
			rest = append(rest, f)
		}
	}
	v.fields = rest
}

// String returns the value as an error shows it. Of an object or list it says what it is.
func (v *value) String() string {
	switch v.kind {
	case kindBool:
		return strconv.FormatBool(v.on)
	case kindNumber:
		return strconv.FormatFloat(v.num, 'f', -1, 64)
	case kindString:
		return quote(v.str)
	case kindList:
		return "a list"
	case kindObject:
		return "an object"
	default:
		return "null"
	}
}

// decode reads a JSON5 text. The tokens are those of ECMAScript 5.1, of which JSON5 takes a part;
// the library finds them, and what is here is the grammar above. The error is a *[FieldError].
func decode(data []byte) (*value, error) {
	p := parser{line: 1, column: 1}
	if len(data) > maxFile {
		return nil, p.fail(fmt.Sprintf("the file has more than %d bytes", maxFile))
	}
	if !utf8.Valid(data) {
		return nil, p.fail("the file is not UTF-8")
	}
	data = append(make([]byte, 0, len(data)+1), data...) // the lexer writes behind the end
	p.in = parse.NewInputBytes(data)
	p.lex = js.NewLexer(p.in)
	if err := p.next(); err != nil {
		return nil, err
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.token != js.ErrorToken {
		return nil, p.unexpected("the end of the file")
	}
	return v, nil
}

// A parser reads a file token by token.
type parser struct {
	in  *parse.Input
	lex *js.Lexer

	token  js.TokenType // js.ErrorToken: the end
	text   string
	line   int // where the token begins
	column int
}

// fail returns an error at the place of the token.
func (p *parser) fail(reason string) error {
	return &FieldError{Line: p.line, Column: p.column, Reason: reason}
}

// unexpected says what stands where something else is wanted.
func (p *parser) unexpected(want string) error {
	is := "the file ends"
	if p.token != js.ErrorToken {
		is = "there is " + shownToken(p.text)
	}
	return p.fail(is + ", want " + want)
}

// shownToken names a token in a mistake. What is longer than a sign or a number may be a password
// without its quotation marks, and is not shown.
func shownToken(token string) string {
	const longest = 5
	switch n := utf8.RuneCountInString(token); {
	case n <= longest || token == "undefined":
		return quote(token)
	case strings.ContainsAny(token[:1], `"'`+"`"):
		return "a text"
	default:
		return fmt.Sprintf("a word of %d characters without quotation marks", n)
	}
}

// next goes to the next token that is not space or a comment.
func (p *parser) next() error {
	for {
		p.line, p.column = advance(p.line, p.column, p.text)
		token, text := p.lex.Next()
		p.token, p.text = token, string(text)
		switch token {
		case js.WhitespaceToken, js.LineTerminatorToken:
			continue
		case js.CommentToken, js.CommentLineTerminatorToken:
			if strings.HasPrefix(p.text, "//") || strings.HasPrefix(p.text, "/*") {
				continue
			}
			return p.unexpected("a comment that begins with // or /*")
		case js.ErrorToken:
			if err := p.lex.Err(); !errors.Is(err, io.EOF) {
				return p.fail(lexFault(err))
			}
			p.text = ""
		default:
		}
		return nil
	}
}

// lexFault returns what the lexer says, without its own line and excerpt.
func lexFault(err error) string {
	if e, ok := errors.AsType[*parse.Error](err); ok {
		return e.Message
	}
	return "it cannot be read"
}

// advance returns the place behind a text.
func advance(line, column int, text string) (int, int) {
	for i, r := range text {
		switch r {
		case '\r':
			if strings.HasPrefix(text[i+1:], "\n") {
				continue
			}
			fallthrough
		case '\n', '\u2028', '\u2029':
			line, column = line+1, 1
		default:
			column++
		}
	}
	return line, column
}

// value reads a value that begins with the token.
func (p *parser) value(depth int) (*value, error) {
	v := &value{line: p.line, column: p.column}
	if depth > maxDepth {
		return nil, p.fail(fmt.Sprintf("more than %d objects and lists are in one another", maxDepth))
	}
	switch {
	case p.token == js.OpenBraceToken:
		v.kind = kindObject
		return v, p.list(js.CloseBraceToken, "}", func() error { return p.field(v, depth) })
	case p.token == js.OpenBracketToken:
		v.kind = kindList
		return v, p.list(js.CloseBracketToken, "]", func() error {
			item, err := p.value(depth + 1)
			v.items = append(v.items, item)
			return err
		})
	case p.token == js.StringToken:
		v.kind = kindString
		text, ok := unquote(p.text)
		if !ok {
			return nil, p.fail("the string has an escape that JSON5 does not know")
		}
		v.str = text
	case p.text == "null":
	case p.text == "true", p.text == "false":
		v.kind, v.on = kindBool, p.text == "true"
	default:
		return v, p.number(v)
	}
	return v, p.next()
}

// list reads what stands between brackets, with commas between and after.
func (p *parser) list(end js.TokenType, sign string, item func() error) error {
	if err := p.next(); err != nil {
		return err
	}
	for p.token != end {
		if err := item(); err != nil {
			return err
		}
		if p.token == end {
			break
		}
		if p.token != js.CommaToken {
			return p.unexpected("a comma or " + sign)
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return p.next()
}

// field reads a member of an object.
func (p *parser) field(v *value, depth int) error {
	f := field{line: p.line, col: p.column}
	var ok bool
	switch {
	case p.token == js.StringToken:
		f.name, ok = unquote(p.text)
	case js.IsIdentifierName(p.token):
		f.name, ok = unescape(p.text, false)
	default:
		return p.unexpected("a name or }")
	}
	switch {
	case !ok:
		return p.fail("the name has an escape that JSON5 does not know")
	case len(f.name) > maxName:
		return p.fail(fmt.Sprintf("the name has %d bytes, the limit is %d", len(f.name), maxName))
	}
	if err := p.next(); err != nil {
		return err
	}
	if p.token != js.ColonToken {
		return p.unexpected("a colon")
	}
	if err := p.next(); err != nil {
		return err
	}
	var err error
	f.value, err = p.value(depth + 1)
	v.fields = append(v.fields, f)
	return err
}

// numbers are the numbers of JSON5, without their sign.
var numbers = regexp.MustCompile(
	`^(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$|^0[xX][0-9a-fA-F]+$`)

// number reads a number.
func (p *parser) number(v *value) error {
	sign := 1.0
	if p.token == js.NegToken || p.token == js.SubToken || p.token == js.AddToken ||
		p.token == js.PosToken {
		if p.text == "-" {
			sign = -1
		}
		from := p.in.Offset()
		if err := p.next(); err != nil {
			return err
		}
		if p.in.Offset()-len(p.text) != from {
			return p.fail("a number follows its sign at once")
		}
	}
	v.kind = kindNumber
	switch {
	case p.text == "Infinity":
		v.num = sign * math.Inf(1)
	case p.text == "NaN":
		v.num = math.NaN()
	case numbers.MatchString(p.text):
		v.num = sign * parseNumber(p.text)
	default:
		return p.unexpected("a value")
	}
	return p.next()
}

// parseNumber returns the number that a text of numbers is.
func parseNumber(text string) float64 {
	if len(text) > 1 && (text[1] == 'x' || text[1] == 'X') {
		text += "p0"
	}
	n, _ := strconv.ParseFloat(text, 64) // what is too large is an infinity
	return n
}

// unquote returns the string that a token of a string is.
func unquote(token string) (text string, ok bool) {
	return unescape(token[1:len(token)-1], true)
}

// unescape returns a string or an identifier without its escapes. ok is false if one of them is
// not of JSON5.
func unescape(s string, isString bool) (text string, ok bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var units []uint16 // of \u escapes that stand side by side
	var b strings.Builder
	flush := func() {
		b.WriteString(decodeUnits(units))
		units = nil
	}
	for s != "" {
		if s[0] != '\\' {
			flush()
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		s = s[1:]
		if s == "" {
			return "", false
		}
		size := map[byte]int{'x': 2, 'u': 4}[s[0]]
		if size > 0 && (isString || s[0] == 'u') {
			if len(s) <= size {
				return "", false
			}
			n, err := strconv.ParseUint(s[1:1+size], 16, 16)
			if err != nil {
				return "", false
			}
			units, s = append(units, uint16(n)), s[1+size:]
			continue
		}
		if !isString {
			return "", false
		}
		flush()
		if text, s, ok = single(s); !ok {
			return "", false
		}
		b.WriteString(text)
	}
	flush()
	return b.String(), true
}

// single returns what an escape of one character means, and what stands behind it.
func single(s string) (text, rest string, ok bool) {
	r, size := utf8.DecodeRuneInString(s)
	rest = s[size:]
	switch r {
	case 'b':
		return "\b", rest, true
	case 'f':
		return "\f", rest, true
	case 'n':
		return "\n", rest, true
	case 'r':
		return "\r", rest, true
	case 't':
		return "\t", rest, true
	case 'v':
		return "\v", rest, true
	case '\r':
		return "", strings.TrimPrefix(rest, "\n"), true
	case '\n', '\u2028', '\u2029':
		return "", rest, true
	case '0':
		return "\x00", rest, rest == "" || rest[0] < '0' || rest[0] > '9'
	}
	return string(r), rest, r < '1' || r > '9'
}

// decodeUnits returns the text of UTF-16 units. Half of a pair becomes U+FFFD.
func decodeUnits(units []uint16) string { return string(utf16.Decode(units)) }
