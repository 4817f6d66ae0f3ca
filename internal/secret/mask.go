package secret

import (
	"strings"
	"unicode/utf8"
)

// Mask masks the credentials in a text, as the documentation of announce.Redact says.
func Mask(text string) string {
	r := redactor{src: text}
	for r.at < len(text) {
		c := text[r.at]
		switch {
		case isNameByte[c]:
			r.visitWord()
		case c == '-' && strings.HasPrefix(text[r.at:], "-----BEGIN "):
			r.maskPrivateKey()
		case c == ':' && strings.HasPrefix(text[r.at:], "://"):
			r.maskUserinfo()
		default:
			r.at++
		}
	}
	if r.out == nil {
		return text
	}
	return string(append(r.out, text[r.from:]...))
}

// isNameByte is true for the bytes of names and tokens: ASCII letters, digits and '_'.
var isNameByte = func() (set [256]bool) {
	for c := range set {
		isLetter := c|0x20 >= 'a' && c|0x20 <= 'z' && c < utf8.RuneSelf
		set[c] = c == '_' || c >= '0' && c <= '9' || isLetter
	}
	return set
}()

// A redactor walks a text once, word by word.
type redactor struct {
	src  string
	at   int    // the byte that the redactor looks at
	from int    // src[from:at] is kept and not copied to out yet
	out  []byte // the kept and masked part of src[:from]
}

// replace puts mask in place of src[start:end] and moves to end.
func (r *redactor) replace(start, end int, mask string) {
	if r.src[start:end] != mask {
		r.out = append(append(r.out, r.src[r.from:start]...), mask...)
		r.from = end
	}
	r.at = end
}

// maskSpan puts the mask of src[start:end] in its place and moves to end.
func (r *redactor) maskSpan(start, end int) { r.replace(start, end, maskOf(r.src[start:end])) }

// visitWord decides about the word that starts at the current byte and moves behind it, or behind
// the credential that follows it. A word is letters, digits, '_' and '-'.
func (r *redactor) visitWord() {
	start, end := r.at, r.at
	for end < len(r.src) && (isNameByte[r.src[end]] || r.src[end] == '-') {
		end++
	}
	word := r.src[start:end]
	if n := tokenEnd(r.src, start, end); n > 0 {
		r.maskSpan(start, n)
		return
	}
	if from := botToken(word); from >= 0 && end < len(r.src) && r.src[end] == ':' {
		if n := wordEnd(r.src, end+1); n-end > 20 {
			r.maskSpan(start+from, n)
			return
		}
	}
	r.at = end
	switch {
	case strings.EqualFold(word, "bearer"):
		if value := skipSpaces(r.src, end); value > end && bearerEnd(r.src, value)-value >= 18 {
			r.maskSpan(value, bearerEnd(r.src, value))
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
func (r *redactor) maskAssignment(start, end int) {
	s := r.src
	at := skipQuote(s, end) // that ends a quoted name
	if n := skipSpaces(s, at); n < len(s) && (s[n] == '=' || s[n] == ':') {
		at = skipSpaces(s, n+1)
		if s[n] == '=' {
			at = valueStart(s, at)
		}
	} else if n > at && start >= 2 && s[start-2:start] == "--" {
		at = n
	} else {
		return
	}
	r.maskValue(at)
}

// valueStart returns where the value of an assignment starts, given the position after its '='. The
// value may stand on the next line, unless that line is an assignment itself.
func valueStart(s string, at int) int {
	next := skipSpaces(s, skipLineBreak(s, at))
	if n := wordEnd(s, next); next == at || n < len(s) && (s[n] == '=' || s[n] == ':') {
		return at
	}
	return next
}

// maskValue masks the value that starts at src[at]. A value is in quotes or ends where bareEnd
// says.
func (r *redactor) maskValue(at int) {
	s := r.src
	if at >= len(s) {
		return
	}
	if r.maskComposite(at) {
		return
	}
	var end int
	if open := skipQuote(s, at); open > at+1 { // escaped, as in JSON within a text
		closing := s[at:open]
		at, end = open, bareEnd(s, open)
		line, _, _ := strings.Cut(s[at:min(len(s), at+maxComposite)], "\n")
		if n := strings.Index(line, closing); n >= 0 {
			end = at + n
		}
	} else if open > at {
		at = open
		end = quotedEnd(s, at, s[at-1])
	} else {
		end = bareEnd(s, at)
		if next := skipSpaces(s, end); next > end && isScheme(s[at:end]) {
			at, end = next, bareEnd(s, next)
		}
	}
	if end > at && !isReference(s[at:end]) {
		r.maskSpan(at, end)
	}
}

// skipQuote returns the position behind the quote at s[at], which may have backslashes before it,
// or at if there is none.
func skipQuote(s string, at int) int {
	n := at
	for n < len(s) && s[n] == '\\' {
		n++
	}
	if n < len(s) && (s[n] == '"' || s[n] == '\'') {
		return n + 1
	}
	return at
}

// maxComposite is how far the end of a list, an object or an escaped text is looked for, in bytes.
const maxComposite = 4096

// maskComposite masks the list or object that is the value at src[at], and reports whether one is.
// What is empty, or refers to a secret, stays.
func (r *redactor) maskComposite(at int) bool {
	s := r.src
	if at >= len(s) || s[at] != '[' && s[at] != '{' || strings.HasPrefix(s[at:], "{{") {
		return false // or what a template fills in
	}
	end, depth, quote := at, 0, byte(0)
	for last := min(len(s), at+maxComposite); end < last; end++ {
		switch c := s[end]; {
		case quote != 0 && c == '\\':
			end++
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
			break
		}
	}
	end = min(end+1, len(s))
	inside := strings.Trim(s[at:end], "[]{} \t\r\n")
	if inside == "" || isReference(s[at:end]) || isMask(strings.Trim(inside, `"`)) {
		return inside == ""
	}
	r.replace(at, end, `"***"`)
	return true
}

// isScheme reports whether s is an authorization scheme, which stands before the credential itself:
// "token: Bearer abc".
func isScheme(s string) bool { return strings.EqualFold(s, "bearer") || strings.EqualFold(s, "basic") }

// quotedEnd returns where the quoted value ends that starts at s[at], behind its opening quote.
// It ends before the closing quote, or where a bare value would end if its line has no such
// quote.
func quotedEnd(s string, at int, quote byte) int {
	for i := at; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case quote:
			return i
		case '\\':
			i++
		}
	}
	return bareEnd(s, at)
}

// bareEnd returns where the value without quotes ends that starts at s[at]: at white space, a
// quote, a backslash, or the next parameter of a URL's query.
func bareEnd(s string, at int) int {
	for at < len(s) {
		switch s[at] {
		case ' ', '\t', '\r', '\n', '"', '\'', '\\':
			return at
		case '&':
			if n := wordEnd(s, at+1); n > at+1 && n < len(s) && s[n] == '=' {
				return at
			}
		}
		at++
	}
	return at
}

// maskHeader masks the credentials of the HTTP header whose name ends at src[end]. After a
// scheme, such as in "Authorization: Bearer abc", it masks what follows the scheme. Without a
// scheme, such as in "Cookie: sid=abc", it masks the whole value.
func (r *redactor) maskHeader(end int) {
	s := r.src
	at := skipSpaces(s, skipQuote(s, end))
	if at >= len(s) || s[at] != ':' && s[at] != '=' {
		return
	}
	at = skipSpaces(s, at+1)
	if r.maskComposite(at) {
		return
	}
	at = skipQuote(s, at)
	stop := at
	for stop < len(s) && strings.IndexByte("\r\n\"'", s[stop]) < 0 {
		stop++
	}
	for stop > at && s[stop-1] == '\\' { // of an escaped quote
		stop--
	}
	if scheme := wordEnd(s, at); scheme < stop && s[scheme] == ' ' {
		at = skipSpaces(s, scheme)
		stop = at + len(strings.TrimRight(s[at:stop], " \t"))
	}
	if stop > at {
		r.maskSpan(at, stop)
	}
}

// maskUserinfo masks the password in scheme://user:password@host, given that the redactor is at
// "://".
func (r *redactor) maskUserinfo() {
	s := r.src
	start := r.at + len("://")
	r.at = start
	colon := 0
	for i := start; i < len(s); i++ {
		switch s[i] {
		case ':':
			if colon == 0 {
				colon = i
			}
		case '@':
			if colon > 0 && i > colon+1 && !isReference(s[colon+1:i]) {
				r.replace(colon+1, i, "***")
			}
			return
		case '/', '?', '#', ' ', '\t', '\r', '\n', '"', '\'', '<', '>':
			return
		}
	}
}

// maskWebhook masks the secret in the address of a webhook, which is the end of its path: behind
// /services/ for Slack, and behind the id of the webhook for Discord. src[start:end] is the word
// "hooks" or "webhooks" in that address.
func (r *redactor) maskWebhook(start, end int) {
	s := r.src
	const slack = ".slack.com/services/"
	switch {
	case strings.HasPrefix(s[end:], slack):
		end += len(slack)
	case strings.HasPrefix(s[end:], "/") && strings.HasSuffix(s[:start], "/api/"): // Discord
		end = wordEnd(s, end+1)
		if !strings.HasPrefix(s[end:], "/") {
			return
		}
		end++
	default:
		return
	}
	stop := end
	for stop < len(s) && (isNameByte[s[stop]] || s[stop] == '-' || s[stop] == '/') {
		stop++
	}
	if stop > end {
		r.replace(end, stop, "***")
	}
}

// maskPrivateKey masks what lies between the first and the last line of a PEM block with a
// private key, given that the redactor is at its "-----BEGIN ". A block that never ends extends
// to the end of the text, and a block on one line is masked as a whole.
func (r *redactor) maskPrivateKey() {
	s := r.src
	start := r.at
	const dashes, longest = "-----", 80
	head := s[start:min(len(s), start+longest)]
	r.at = start + len(dashes)
	i := strings.Index(head[len(dashes):], "PRIVATE KEY"+dashes)
	if i < 0 {
		return
	}
	head = head[:len(dashes)+i+len("PRIVATE KEY"+dashes)]
	tail := dashes + "END " + strings.TrimPrefix(head, dashes+"BEGIN ")
	rest := s[start+len(head):]
	end := strings.Index(rest, tail)
	switch {
	case end < 0:
		r.replace(start+len(head), len(s), "\n…redacted…")
	case strings.IndexByte(rest[:end], '\n') < 0:
		r.replace(start, start+len(head)+end+len(tail), "***")
	default:
		r.replace(start+len(head), start+len(head)+end, "\n…redacted…\n")
	}
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

// skipSpaces returns the position of the first byte from s[at] on that is not a space or a tab.
func skipSpaces(s string, at int) int {
	return len(s) - len(strings.TrimLeft(s[at:], " \t"))
}

// skipLineBreak returns the position after the line break at s[at], or at if none is there.
func skipLineBreak(s string, at int) int {
	rest := strings.TrimPrefix(strings.TrimPrefix(s[at:], "\r"), "\n")
	if n := len(s) - len(rest); n > at && s[n-1] == '\n' {
		return n
	}
	return at
}
