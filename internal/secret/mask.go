package secret

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// Mask masks the credentials in a text, as the documentation of announce.Redact says.
func Mask(text string) string {
	var m Masker
	return m.pass(text, true)
}

// A Masker is Mask for a text that comes in pieces. What its methods return, one after another, is
// Mask of the whole text. The zero Masker is ready.
//
// A Masker looks ahead ahead.Max bytes. A credential that is longer is masked as if it ended there,
// and the rest of it is removed, up to where a value without quotes, a header or a quoted value
// ends.
type Masker struct {
	cursor ahead.Cursor
	until  string // the rest of a credential is being removed, up to one of these characters
	pem    string // the last line of the private key that is being removed
}

// Write takes the next piece of the text and returns what may be shown now.
func (m *Masker) Write(piece string) string { return m.pass(piece, false) }

// Close ends the text and returns the rest of it.
func (m *Masker) Close() string { return m.pass("", true) }

// Held returns how many bytes the Masker keeps between two pieces.
func (m *Masker) Held() int { return m.cursor.Held() }

// behind is how many bytes before a word are looked at, at most: "/api/".
const behind = 8

// pass takes the next piece of the text and returns what may be shown now.
func (m *Masker) pass(piece string, final bool) string {
	c := &m.cursor
	c.Behind = behind
	if !c.Begin(piece, final) {
		return ""
	}
	for c.At < len(c.Buf) && m.step() {
	}
	kept, _ := c.Finish(c.At)
	return kept
}

// isNameByte is true for the bytes of names and tokens: ASCII letters, digits and '_'.
var isNameByte = func() (set [256]bool) {
	for c := range set {
		isLetter := c|0x20 >= 'a' && c|0x20 <= 'z' && c < utf8.RuneSelf
		set[c] = c == '_' || c >= '0' && c <= '9' || isLetter
	}
	return set
}()

// step passes some of the text. It returns false if it needs more of the text.
func (m *Masker) step() bool {
	c := &m.cursor
	switch {
	case m.until != "":
		i := strings.IndexAny(c.Buf[c.At:], m.until)
		if i < 0 {
			c.Skip(len(c.Buf))
			return false
		}
		m.until = ""
		c.Skip(c.At + i)
		return true
	case m.pem != "":
		return m.passKey()
	}
	for !isNameByte[c.Buf[c.At]] && c.Buf[c.At] != '-' && c.Buf[c.At] != ':' {
		if c.At++; c.At == len(c.Buf) {
			return true
		}
	}
	r := reader{View: c.View(), at: c.At, next: c.At + 1}
	switch r.S[r.at] {
	case '-':
		r.maskPrivateKey()
	case ':':
		r.maskUserinfo()
	default:
		r.visitWord()
	}
	if r.Waits() {
		return false
	}
	if r.mask != "" {
		c.Keep(r.start)
		c.Write(r.mask)
		c.Skip(r.next)
		m.until, m.pem = r.until, r.pem
	}
	c.At = r.next
	return true
}

// A reader decides about one place in a text.
type reader struct {
	ahead.View

	at   int // the place
	next int // where the Masker goes on

	start int    // where the mask begins that stands for the text up to next
	mask  string // what is written there; "": nothing is masked
	until string // for Masker.until
	pem   string // for Masker.pem
}

// What ends a value: one without quotes, and one of a header.
const (
	bareUntil   = " \t\r\n\"'\\"
	headerUntil = "\r\n\"'"
)

// replace puts mask in place of the text from start to end and goes on at end.
func (r *reader) replace(start, end int, mask, until string) {
	r.start, r.next, r.mask = start, end, mask
	if end == len(r.S) {
		r.until = until
	}
}

// maskSpan puts the mask of the text from start to end in its place and goes on at end.
func (r *reader) maskSpan(start, end int, until string) {
	r.replace(start, end, maskOf(r.S[start:end]), until)
}

// visitWord decides about the word that starts at the current byte and moves behind it, or behind
// the credential that follows it. A word is letters, digits, '_' and '-'.
func (r *reader) visitWord() {
	start, end := r.at, r.wordEnd(r.at)
	word := r.S[start:end]
	if n := r.tokenEnd(start, end); n > 0 {
		r.maskSpan(start, n, bareUntil)
		return
	}
	if from := botToken(word); from >= 0 && r.Byte(end) == ':' {
		if n := r.wordEnd(end + 1); n-end > 20 {
			r.maskSpan(start+from, n, bareUntil)
			return
		}
	}
	r.next = end
	switch {
	case strings.EqualFold(word, "bearer"):
		value := r.Skip(end, " \t")
		if n := r.bearerEnd(value); value > end && n-value >= 18 {
			r.maskSpan(value, n, bareUntil)
		}
	case isHeader(word):
		r.maskHeader(end)
	case isSecretName(word):
		r.maskAssignment(start, end)
	case strings.EqualFold(word, "hooks"), strings.EqualFold(word, "webhooks"):
		r.maskWebhook(start, end)
	}
}

// maskAssignment masks the value that follows a secret name: NAME=value, "name": "value", --name
// value.
func (r *reader) maskAssignment(start, end int) {
	at := r.skipQuote(end) // that ends a quoted name
	n := r.Skip(at, " \t")
	switch c := r.Byte(n); {
	case c == '=':
		at = r.valueStart(r.Skip(n+1, " \t"))
	case c == ':':
		at = r.Skip(n+1, " \t")
	case n > at && strings.HasSuffix(r.S[:start], "--"):
		at = n
	default:
		return
	}
	r.maskValue(at)
}

// valueStart returns where the value of an assignment starts, given the position after its '='. The
// value may stand on the next line, unless that line is an assignment itself.
func (r *reader) valueStart(at int) int {
	next := r.Skip(r.Break(at), " \t")
	if next == at {
		return at
	}
	if c := r.Byte(r.wordEnd(next)); c == '=' || c == ':' {
		return at
	}
	return next
}

// maskValue masks the value that starts at a position. A value is in quotes or ends where bareEnd
// says.
func (r *reader) maskValue(at int) {
	if r.Ended(at) || r.maskComposite(at) {
		return
	}
	var end int
	until := bareUntil
	if open := r.skipQuote(at); open > at+1 { // escaped, as in JSON within a text
		closing := r.S[at:open]
		line := r.Within(at, maxComposite)
		n := strings.Index(line.S[open:line.Any(open, "\n")], closing)
		if at = open; n >= 0 {
			end = at + n
		} else {
			end = r.bareEnd(open)
			r.Join(line)
		}
	} else if open > at {
		at, until = open, r.S[open-1:open]+"\n"
		end = r.quotedEnd(at, r.S[at-1])
	} else {
		end = r.bareEnd(at)
		if next := r.Skip(end, " \t"); next > end && isScheme(r.S[at:end]) {
			at, end = next, r.bareEnd(next)
		}
	}
	if end > at && !isReference(r.S[at:end]) {
		r.maskSpan(at, end, until)
	}
}

// skipQuote returns the position behind the quote at a position, which may have backslashes before
// it, or that position if there is none.
func (r *reader) skipQuote(at int) int {
	n := r.Skip(at, "\\")
	if c := r.Byte(n); c == '"' || c == '\'' {
		return n + 1
	}
	return at
}

// maxComposite is how far the end of a list, an object or an escaped text is looked for, in bytes.
const maxComposite = 4096

// maskComposite masks the list or object that is the value at src[at], and reports whether one is.
// What is empty, or refers to a secret, stays.
func (r *reader) maskComposite(at int) bool {
	if c := r.Byte(at); c != '[' && c != '{' || c == '{' && r.Byte(at+1) == '{' {
		return false // or what a template fills in
	}
	v := r.Within(at, maxComposite)
	end := compositeEnd(&v, at)
	r.Join(v)
	inside := strings.Trim(r.S[at:end], "[]{} \t\r\n")
	if inside == "" || isReference(r.S[at:end]) || isMask(strings.Trim(inside, `"`)) {
		return inside == ""
	}
	r.replace(at, end, `"***"`, "")
	return true
}

// compositeEnd returns where the list or object ends that starts at a position.
func compositeEnd(v *ahead.View, at int) int {
	depth, quote := 0, byte(0)
	for ; !v.Ended(at); at++ {
		switch c := v.S[at]; {
		case quote != 0 && c == '\\':
			at++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(v.S)
}

// isScheme reports whether s is an authorization scheme, which stands before the credential itself:
// "token: Bearer abc".
func isScheme(s string) bool { return strings.EqualFold(s, "bearer") || strings.EqualFold(s, "basic") }

// quotedEnd returns where the quoted value ends that starts at a position, behind its opening
// quote. It ends before the closing quote, or where a bare value would end if its line has no such
// quote. A line that is too long for that question is of the value.
func (r *reader) quotedEnd(at int, quote byte) int {
	for i := at; ; i++ {
		if r.Ended(i) && r.Full() {
			return len(r.S)
		}
		if r.Ended(i) || r.S[i] == '\n' {
			break
		}
		switch r.S[i] {
		case quote:
			return i
		case '\\':
			i++
		}
	}
	return r.bareEnd(at)
}

// bareEnd returns where the value without quotes ends that starts at a position: at white space, a
// quote, a backslash, or the next parameter of a URL's query.
func (r *reader) bareEnd(at int) int {
	for at = r.Any(at, bareUntil+"&"); !r.Ended(at) && r.S[at] == '&'; {
		if n := r.wordEnd(at + 1); n > at+1 && r.Byte(n) == '=' {
			return at
		}
		at = r.Any(at+1, bareUntil+"&")
	}
	return at
}

// maskHeader masks the credentials of the HTTP header whose name ends at a position. After a
// scheme, such as in "Authorization: Bearer abc", it masks what follows the scheme. Without a
// scheme, such as in "Cookie: sid=abc", it masks the whole value.
func (r *reader) maskHeader(end int) {
	at := r.Skip(r.skipQuote(end), " \t")
	if c := r.Byte(at); c != ':' && c != '=' {
		return
	}
	at = r.Skip(at+1, " \t")
	if r.maskComposite(at) {
		return
	}
	at = r.skipQuote(at)
	stop := r.Any(at, headerUntil)
	cut := stop == len(r.S)
	for stop > at && r.S[stop-1] == '\\' { // of an escaped quote
		stop--
	}
	if scheme := r.wordEnd(at); scheme < stop && r.S[scheme] == ' ' {
		at = r.Skip(scheme, " \t")
		stop = max(at, at+len(strings.TrimRight(r.S[min(at, stop):stop], " \t")))
	}
	if stop > at {
		r.maskSpan(at, stop, "")
		if cut {
			r.next, r.until = len(r.S), headerUntil
		}
	}
}

// maskUserinfo masks the password in scheme://user:password@host, given that the place has a ':'.
func (r *reader) maskUserinfo() {
	if !r.Has(r.at, "://") {
		return
	}
	r.next = r.at + len("://")
	colon := 0
	for i := r.next; !r.Ended(i); i++ {
		switch r.S[i] {
		case ':':
			if colon == 0 {
				colon = i
			}
		case '@':
			if colon > 0 && i > colon+1 && !isReference(r.S[colon+1:i]) {
				r.replace(colon+1, i, "***", "")
			}
			return
		case '/', '?', '#', ' ', '\t', '\r', '\n', '"', '\'', '<', '>':
			return
		}
	}
}

// maskWebhook masks the secret in the address of a webhook, which is the end of its path: behind
// /services/ for Slack, and behind the id of the webhook for Discord. The text from start to end is
// the word "hooks" or "webhooks" in that address.
func (r *reader) maskWebhook(start, end int) {
	const slack = ".slack.com/services/"
	switch {
	case r.Has(end, slack):
		end += len(slack)
	case r.Byte(end) == '/' && strings.HasSuffix(r.S[:start], "/api/"): // Discord
		if end = r.wordEnd(end + 1); r.Byte(end) != '/' {
			return
		}
		end++
	default:
		return
	}
	stop := end
	for !r.Ended(stop) && (isNameByte[r.S[stop]] || r.S[stop] == '-' || r.S[stop] == '/') {
		stop++
	}
	if stop > end {
		r.replace(end, stop, "***", bareUntil)
	}
}

// maskPrivateKey masks what lies between the first and the last line of a PEM block with a private
// key, given that the place has a '-'. A block that never ends extends to the end of the text, and
// a block on one line of at most ahead.Max bytes is masked as a whole.
func (r *reader) maskPrivateKey() {
	const dashes, longest, name = "-----", 80, "PRIVATE KEY-----"
	if !r.Has(r.at, dashes+"BEGIN ") {
		return
	}
	r.next = r.at + len(dashes)
	head := r.Within(r.at, longest)
	i := strings.Index(head.S[r.next:], name)
	if i < 0 {
		head.Read(len(head.S) + 1)
		r.Join(head)
		return
	}
	start := r.next + i + len(name)
	tail := dashes + "END " + r.S[r.at+len(dashes+"BEGIN "):start]
	line := r.Any(start, "\n")
	if end := strings.Index(r.S[start:line], tail); end >= 0 {
		*r = reader{at: r.at} // what follows changes nothing
		r.start, r.next, r.mask = r.at, start+end+len(tail), "***"
		return
	}
	r.start, r.next, r.mask, r.pem = start, start, "\n…redacted…", tail
}

// passKey removes a private key up to its last line.
func (m *Masker) passKey() bool {
	c := &m.cursor
	if i := strings.Index(c.Buf[c.At:], m.pem); i >= 0 {
		c.Skip(c.At + i)
		c.Write("\n")
		m.pem = ""
		return true
	}
	if c.Final {
		c.Skip(len(c.Buf))
	} else {
		c.Skip(max(c.At, len(c.Buf)-len(m.pem)+1))
	}
	return false
}

const (
	maskHead = 6 // runes of a long secret that are shown before the ellipsis
	maskTail = 4 // runes of it that are shown after the ellipsis
)

// maskOf returns what is shown in place of a secret. The mask of a mask is that mask. A backslash
// at the end of the first runes is not shown, because it would escape the ellipsis.
func maskOf(secret string) string {
	const least = 18 // runes, below which nothing of the secret is shown
	if isMask(secret) {
		return secret
	}
	if len(secret) < least || utf8.RuneCountInString(secret) < least {
		return "***"
	}
	head, tail := 0, len(secret)
	for range maskHead {
		_, size := utf8.DecodeRuneInString(secret[head:])
		head += size
	}
	for range maskTail {
		_, size := utf8.DecodeLastRuneInString(secret[:tail])
		tail -= size
	}
	return strings.TrimRight(secret[:head], `\`) + "…" + secret[tail:]
}

// isMask reports whether s is a mask that maskOf made.
func isMask(s string) bool {
	head, tail, ok := strings.Cut(s, "…")
	return s == "***" ||
		ok && utf8.RuneCountInString(head) <= maskHead && utf8.RuneCountInString(tail) == maskTail
}
