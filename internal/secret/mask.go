package secret

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// Mask masks the credentials in a text, as the documentation of announce.Redact says.
func Mask(text string) string {
	if isPlain(text) {
		return text
	}
	var m Masker
	return m.pass(text, true)
}

// maxPlain is how many bytes of a text isPlain looks at: of a longer one the Masker is little.
const maxPlain = 4 << 10

// isPlain reports whether a text that is not long holds nothing that is looked at. Most lines of
// people are so, and to look takes no memory.
func isPlain(text string) bool {
	if len(text) > maxPlain {
		return false
	}
	var m Masker // which stays on the stack
	m.cursor.Final = true
	return m.plainEnd(text, 0) == len(text)
}

// A Masker is Mask for a text that comes in pieces. What its methods return, one after another, is
// Mask of the whole text. The zero Masker is ready.
//
// A Masker looks ahead ahead.Max bytes. A credential that is longer is masked as if it ended there,
// and the rest of it is removed, up to where a value without quotes, a header or a quoted value
// ends.
type Masker struct {
	cursor ahead.Cursor
	line   line
	until  string  // the rest of a credential is being removed, up to one of these characters
	pem    string  // the last line of the private key that is being removed
	word   stretch // of the present piece
	bare   stretch // of the present piece; see bareRun
	head   wrap    // see headEnd
	runs   runs    // of the present piece
}

// A stretch is one of bytes of words that was found last. Tokens may begin at many places within
// one, and each of them asks where it ends: to look for that from its beginning each time would
// take a thousand steps for each token.
type stretch struct{ from, stop int }

// end returns where the word ends that begins at a position, or as much of it as is known.
func (w *stretch) end(at int) int {
	if w != nil && w.from <= at && at < w.stop {
		return w.stop
	}
	return at
}

// Write takes the next piece of the text and returns what may be shown now.
func (m *Masker) Write(piece string) string { return m.pass(piece, false) }

// Close ends the text and returns the rest of it.
func (m *Masker) Close() string { return m.pass("", true) }

// Held returns how many bytes the Masker keeps between two pieces.
func (m *Masker) Held() int { return m.cursor.Held() }

// behind is how many bytes before a word are looked at, at most: "X-Amz-Security-".
const behind = 32

// pass takes the next piece of the text and returns what may be shown now.
func (m *Masker) pass(piece string, final bool) string {
	c := &m.cursor
	c.Behind = behind
	m.word, m.bare, m.runs = stretch{}, stretch{}, runs{}
	if !c.Begin(piece, final) {
		return ""
	}
	for c.At < len(c.Buf) && m.step() {
	}
	kept, moved := c.Finish(c.At)
	m.head.move(moved)
	return kept
}

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
	c.At = m.plainEnd(c.Buf, c.At)
	if c.At == len(c.Buf) {
		return true
	}
	r := reader{View: c.View(), at: c.At, next: c.At + 1, line: m.line}
	r.word, r.bare, r.head, r.runs = &m.word, &m.bare, &m.head, &m.runs
	r.visit()
	if r.Waits() {
		return false
	}
	if r.mask != "" {
		c.Keep(r.start)
		c.Write(r.mask)
		c.Skip(r.next)
		m.until, m.pem = r.until, r.pem
	}
	m.line = r.line
	c.At = r.next
	return true
}

// A place says what a byte may begin.
type place uint8

const (
	placeNone place = iota
	placeWord
	placeMark // something that is looked at on its own
)

var placeOf = func() (places [256]place) {
	for c := range places {
		if isNameByte[c] {
			places[c] = placeWord
		}
	}
	for _, c := range []byte("-:\\%\x1b\n<$") {
		places[c] = placeMark
	}
	for _, name := range foreignNames {
		places[name[0]] = placeMark
	}
	return places
}()

// plainEnd returns where the text ends from a position on that holds nothing that is looked at.
// This loop is most of the time that a mask of prose takes.
func (m *Masker) plainEnd(buf string, at int) int {
	for at < len(buf) {
		switch placeOf[buf[at]] {
		case placeNone:
			at++
		case placeMark:
			if !m.isMarked(buf, at) {
				at++
				continue
			}
			return at
		default:
			end := m.word.end(at + 1)
			for end < len(buf) && end-at < longestWord && isWordByte[buf[end]] {
				end++
			}
			end = at + partOf(buf[at:end])
			m.word = stretch{at + 1, end}
			if isWordByte[buf[at]] {
				m.word.from = at
			}
			if end == len(buf) && !m.cursor.Final || isCandidate(buf, at, end) {
				return at
			}
			at = end
		}
	}
	return at
}

// isMarked reports whether the mark at a position may begin something.
func (m *Masker) isMarked(buf string, at int) bool {
	if at+2 >= len(buf) && !m.cursor.Final {
		return true
	}
	next := byte(0)
	if at+1 < len(buf) {
		next = buf[at+1]
	}
	switch buf[at] {
	case '-':
		return next == '-' || m.line.command != nil
	case ':':
		return next == '/'
	case '\n':
		return m.line != line{}
	case '<':
		return next == '<'
	case '$':
		return next != '{' && next != '(' && (at == 0 || buf[at-1] != '$')
	case '%':
		return hex[next]
	case '\\', 0x1B:
		return true
	}
	for _, name := range foreignNames {
		n := min(len(name), len(buf)-at)
		if buf[at:at+n] == name[:n] && (n == len(name) || !m.cursor.Final) {
			return true
		}
	}
	return false
}

// foreignNames are what a password is called in scripts other than Latin, or the end of such a
// name from its first letter on that is not ASCII.
var foreignNames = []string{
	"пароль", "Пароль", "密码", "密碼", "口令", "パスワード", "비밀번호", "ña:", "ña =", "ña=", "הסיסמה",
	"كلمة السر",
}

// isCandidate reports whether a word may be, or name, a credential. Every word for which the visit
// of it does something is one.
func isCandidate(buf string, at, end int) bool {
	w := buf[at:end]
	n := len(w)
	after, behind := byte(0), byte(' ')
	if end < len(buf) {
		after = buf[end]
	}
	if end+1 < len(buf) {
		behind = buf[end+1]
	}
	switch {
	case beginsFamily(buf, at, end):
		return true
	case n >= 3 && endTriples.has(tripleOf(w[n-3], w[n-2], w[n-1])), w[n-1] == '_' || w[n-1] == '-':
		return true
	case n == 2 && endTriples.has(tripleOf(0, w[0], w[1])):
		return true
	case n <= maxKeyword && keywordTriples.has(firstOf(w)) && isKeyword(w):
		return true
	case after == ':' && behind > ' ', after == '~', after == '%' && behind == '3':
		return true
	case (after == '/' || after == '%' || after == '\\') && w == "hooks":
		return true
	case strings.IndexByte(`.:"`, after) >= 0 && end+1 == len(buf): // what follows may tell
		return true
	case (after == ' ' || after == 0) && strings.HasSuffix(w, "-----BEGIN"):
		return true
	case after == '.' && behind > ' ' && (n >= 14 || hostTriples.has(firstOf(w))):
		return true
	case n >= minLong && strings.ContainsAny(w, "0123456789"):
		return true
	}
	if n <= 2 && after == '"' && behind == ':' || w == "Private-Lines" || w == "ID" {
		return true
	}
	return w[0] == '_' || at > 0 && (buf[at-1] == '\\' || buf[at-1] == '=' && w[0] == '3')
}

// minLong is the length from which on every word is looked at, see longEnd.
const minLong = 14

// A reader decides about one place in a text.
type reader struct {
	ahead.View

	at   int // the place
	next int // where the Masker goes on

	start int      // where the mask begins that stands for the text up to next
	mask  string   // what is written there; "": nothing is masked
	until string   // for Masker.until
	pem   string   // for Masker.pem
	line  line     // for Masker.line
	word  *stretch // as of the Masker; may be nil
	bare  *stretch // as of the Masker; may be nil
	head  *wrap    // as of the Masker; may be nil
	runs  *runs    // as of the Masker; may be nil
	spelt *spelt   // as of the OwnPass; may be nil

	hopped *hopped    // as of the OwnPass; may be nil
	sieves *sieves    // as of the OwnPass; may be nil
	unseen *unseen    // as of the OwnPass; may be nil
	gaps   *gaps      // as of the OwnPass; may be nil
	has    *[256]bool // as of the Own; nil: each
	fronts *fronts    // as of the OwnPass; may be nil
	plain  [2]hop     // of a byte that stands for itself alone, see hops
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

// before returns what stands before a position, as far as it is looked at.
func (r *reader) before(at int) string { return r.S[max(0, at-behind):at] }

// visit decides about the current place.
func (r *reader) visit() {
	switch r.S[r.at] {
	case '-':
		if r.maskPrivateKey(); r.mask == "" && r.next == r.at+1 {
			r.maskFlag()
		}
	case ':':
		r.maskUserinfo()
	case '\n':
		r.line = r.line.next(r)
	case '<':
		r.maskHereString()
	case '$':
		r.maskHash()
	case '%':
		if hex[r.Byte(r.at+1)] && hex[r.Byte(r.at+2)] {
			r.next = r.at + 3
		}
	case '\\', 0x1B:
		r.next = max(r.next, r.transparentEnd(r.at))
	default:
		if isNameByte[r.S[r.at]] {
			r.visitWord()
		} else {
			r.visitForeign()
		}
	}
}

// visitForeign decides about a name in another script.
func (r *reader) visitForeign() {
	for _, name := range foreignNames {
		if !r.Has(r.at, name) {
			continue
		}
		name = strings.TrimRight(name, ":= ")
		if name == "ña" && !strings.HasSuffix(strings.ToLower(r.before(r.at)), "contrase") {
			continue
		}
		r.maskAssignment(r.at, r.at+len(name), passwordTag)
		return
	}
}

// visitWord decides about the word that starts at the current byte and moves behind it, or behind
// the credential that follows it. A word is letters, digits, '_' and '-'.
func (r *reader) visitWord() {
	start, end := r.at, r.wordEnd(r.at)
	r.next = end
	for _, at := range [...]int{start, r.escapeEnd(start, end)} {
		if n := r.tokenEnd(at, end); n > 0 {
			r.maskSpan(at, n, bareUntil)
			return
		}
	}
	if end-start >= minLong {
		if at, n := r.gluedToken(start, end); n > 0 {
			r.maskSpan(at, n, bareUntil)
			return
		}
	}
	w := r.S[start:end]
	if r.Byte(end) == ':' && r.visitPair(r.escapeEnd(start, end), end) {
		return
	}
	if r.Byte(end) == '%' && r.HasFold(end, "%3a") {
		if at := r.escapeEnd(start, end); r.maskBot(at, end, end+len("%3a")) ||
			r.maskEscapedUserinfo(start, end) {
			return
		}
	}
	if strings.IndexByte("./\\%", r.Byte(end)) >= 0 {
		if r.maskAddress(start); r.mask != "" {
			return
		}
	}
	switch {
	case isHeader(w):
		r.maskHeader(end)
		return
	case w == "Private-Lines" && r.Byte(end) == ':': // of PuTTY
		if stop := r.Any(end, "\n"); stop < len(r.S) {
			r.start, r.next, r.mask, r.pem = stop, stop, "\n…redacted…", "Private-MAC"
		}
		return
	case len(w) <= 2 && r.maskNumberOfKey(start, end):
		return
	}
	if len(w) <= maxKeyword && r.visitKeyword(start, end) {
		return
	}
	is := strengthOf(w, r.before(start))
	if at := r.escapeEnd(start, end); is == noSecret && at > start && at < end {
		start, is = at, strengthOf(r.S[at:end], "")
	}
	if is != noSecret {
		r.maskAssignment(start, end, is)
	}
}

// hashes are how the hash of a password begins in a file of users, from crypt(5).
var hashes = []string{
	"$1$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$2a$", "$2b$", "$2y$", "$argon2id$", "$argon2i$",
	"$argon2d$", "$scrypt$", "$apr1$",
}

// maskHash masks the hash of a password, given that the place has a '$'.
func (r *reader) maskHash() {
	const least, most = 20, 256 // bytes of salt and hash
	for _, h := range hashes {
		if !r.Has(r.at, h) {
			continue
		}
		from := r.at + len(h)
		end := from
		for end-from < most && !r.Ended(end) && hashBody[r.S[end]] {
			end++
		}
		if end-from >= least && end-from < most && looksRandom(r.S[from:end]) {
			r.maskSpan(r.at, end, "")
		}
		return
	}
}

var hashBody = letters("A-Za-z0-9./$=,+")

// maskNumberOfKey masks a secret number of a key in JSON, whose name stands from start to end. It
// reports whether there is one.
func (r *reader) maskNumberOfKey(start, end int) bool {
	switch r.S[start:end] {
	case "d", "p", "q", "dp", "dq", "qi", "k":
	default:
		return false
	}
	if start == 0 || r.S[start-1] != '"' || !r.Has(end, `":`) {
		return false
	}
	open := r.Skip(end+len(`":`), " \t")
	if r.Byte(open) != '"' {
		return false
	}
	stop := r.run1(open+1, base64Url)
	if stop-open < 40 || r.Byte(stop) != '"' || !looksRandom(r.S[open+1:stop]) {
		return false
	}
	r.maskSpan(open+1, stop, bareUntil)
	return true
}

// escapeEnd returns where a word starts behind what is not a part of it: the end of an escape that
// a program has written, such as the n of "\ntoken", or the marks of Markdown. It returns the start
// of any other word.
func (r *reader) escapeEnd(start, end int) int {
	n := 0
	before := byte(0)
	if start > 0 {
		before = r.S[start-1]
	}
	switch {
	case r.S[start] == '_': // of Markdown
		n = r.Skip(start, "_") - start
	case before == '\\' && r.S[start] == 'u':
		n = 5
	case before == '\\' && r.S[start] == 'x':
		n = 3
	case before == '\\' && strings.IndexByte("nrtbfv0", r.S[start]) >= 0:
		n = 1
	case before == '=' && r.Has(start, "3D"):
		n = 2
	}
	if n == 0 || start+n >= end {
		return start
	}
	return start + n
}

// tokenEnd returns where the token of a well-known service ends that begins at a position, or 0.
// The word that it begins with ends at another one.
func (r *reader) tokenEnd(start, end int) int {
	if n := r.familyEnd(start); n > 0 {
		return n
	}
	if end-start < minLong && r.Byte(end) != '~' {
		return 0
	}
	return r.longEnd(start, end)
}

// wordEnd returns where the word ends that starts at a position; see visitWord.
func (r *reader) wordEnd(at int) int {
	from := at
	at = min(r.word.end(at), from+longestWord, max(len(r.S), at))
	r.Read(at)
	for at-from < longestWord && !r.Ended(at) && isWordByte[r.S[at]] {
		at++
	}
	at = from + partOf(r.S[from:at])
	if r.word != nil {
		*r.word = stretch{from, at}
	}
	for _, begin := range [...]string{"-----BEGIN", "----"} { // see beginsBlock
		if w := r.S[from:at]; len(w) > len(begin) && strings.HasSuffix(w, begin) &&
			r.beginsBlock(at-len(begin)) {
			return at - len(begin)
		}
	}
	return at
}

// beginsBlock reports whether the first line of a block stands at a position, which has a '-'. It
// does so behind any word, because a line break before it may have been removed.
func (r *reader) beginsBlock(at int) bool {
	return r.Has(at, "-----BEGIN ") || r.Has(at, "---- BEGIN ")
}

// longestWord is how long a word is at most, in bytes: what is longer is several. A token may end
// at each place within it, and to look for the end of the word again behind each of them would take
// time that grows with the square of the text.
const longestWord = 1024

// partOf returns how much of a word is read as one. What is longer than longestWord is cut there,
// but not within the first line of a block.
func partOf(word string) int {
	const first = "-----BEGIN"
	if len(word) < longestWord {
		return len(word)
	}
	for n := len(first); n > 0; n-- {
		if strings.HasSuffix(word, first[:n]) {
			return len(word) - n
		}
	}
	return len(word)
}

// maskPrivateKey masks what lies between the first and the last line of a block with a private key,
// given that the place has a '-'. A block that never ends extends to the end of the text, and a
// block on one line of at most ahead.Max bytes is masked as a whole.
func (r *reader) maskPrivateKey() {
	const longest = 80
	dashes := "-----"
	begin := r.at + len(dashes)
	switch {
	case !r.beginsBlock(r.at):
		return
	case !r.Has(r.at, "-----"):
		dashes, begin = "----", r.at+len("---- ")
	}
	r.next = begin
	begin += len("BEGIN ")
	head := r.Within(r.at, longest)
	stop := strings.Index(head.S[begin:], dashes)
	if stop < 0 {
		head.Read(len(head.S) + 1)
		r.Join(head)
		return
	}
	if name := head.S[begin : begin+stop]; strings.ContainsAny(name, "\r\n") || !isKeyName(name) {
		head.Read(begin + stop + len(dashes))
		r.Join(head)
		return
	}
	start := begin + stop + len(dashes)
	tail := r.S[r.at:begin-len("BEGIN ")] + "END " + r.S[begin:start]
	line := r.Any(start, "\n")
	if end := strings.Index(r.S[start:line], tail); end >= 0 {
		*r = reader{at: r.at, line: r.line} // what follows changes nothing
		r.start, r.next, r.mask = r.at, start+end+len(tail), "***"
		return
	}
	r.start, r.next, r.mask, r.pem = start, start, "\n…redacted…", tail
}

// isKeyName reports whether the name of a block says that it is a private key.
func isKeyName(name string) bool {
	for _, w := range [...]string{"PRIVATE KEY", "Static key", "SECRET KEY"} {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
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

// maskOf returns what is shown in place of a secret. The mask of a mask is that mask. Nothing is
// shown of a secret at whose end a sign stands that joins a name and a value. A backslash
// at the end of the first runes is not shown, because it would escape the ellipsis.
func maskOf(secret string) string {
	const least = 18 // runes, below which nothing of the secret is shown
	if isMask(secret) {
		return secret
	}
	secret = joined(secret)
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
	if strings.ContainsFunc(secret[tail:], isJoint) {
		return "***" // the last runes would be read as something else
	}
	return strings.TrimRight(secret[:head], `\`) + ellipsis + secret[tail:]
}

const ellipsis = "…"

// isJoint reports whether r may stand between a name and a value, or end a value.
func isJoint(r rune) bool {
	return r < utf8.RuneSelf && strings.IndexByte("=:;,<>()[]{}&%@\"'`\\", byte(r)) >= 0
}

// hasMask reports whether a mask with an ellipsis stands in s between what is not of a word: what
// it stands for was masked alone, so that the rest of s is not secret.
func hasMask(s string) bool {
	isPart := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	for rest := s; ; {
		i := strings.Index(rest, ellipsis)
		if i < 0 {
			return false
		}
		before := s[:len(s)-len(rest)+i]
		rest = rest[i+len(ellipsis):]
		head := before[strings.LastIndexFunc(before, func(r rune) bool { return !isPart(r) })+1:]
		tail := strings.IndexFunc(rest, func(r rune) bool { return !isPart(r) })
		if tail < 0 {
			tail = len(rest)
		}
		if utf8.RuneCountInString(head) == maskHead &&
			utf8.RuneCountInString(rest[:tail]) == maskTail {
			return true
		}
	}
}

// isMask reports whether s is a mask that maskOf made, or the part of one before something with
// which a value ends.
func isMask(s string) bool {
	head, tail, ok := strings.Cut(s, "…")
	return s == "***" ||
		ok && utf8.RuneCountInString(head) <= maskHead && utf8.RuneCountInString(tail) <= maskTail
}
