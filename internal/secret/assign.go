package secret

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/ahead"
)

// maskAssignment masks the value that follows a secret name, in whichever form: NAME=value,
// "name": "value", --name value, <name>value</name>, name => "value", and those of visitKeyword.
func (r *reader) maskAssignment(start, end int, is strength) {
	f := form{name: r.S[start:end], is: is}
	at, isQuoted, isTight := r.marksEnd(end)
	o, next, url := r.opAt(at)
	if o != opNone {
		f.op, f.tight = o, isTight
		r.maskAfter(next, &f, url)
		return
	}
	if isQuoted || r.Byte(at) == '<' || r.Byte(at) == '\n' {
		if next = r.pairValue(at); next > 0 {
			f.op = opEquals
			r.maskValue(next, &f, false)
			return
		}
	}
	before := byte(' ')
	if start > 0 {
		before = r.S[start-1]
	}
	switch c := r.Byte(at); {
	case c == '>' && strings.EqualFold(f.name, "code"): // of HTML: any text may be shown as code
	case c == '>' && (before == '<' || isQuoted):
		f.op = opTag
		r.maskElement(at+1, &f)
	case c == ',' && isQuoted:
		if next = r.blankEnd(at + 1); r.quoteEnd(next) > next {
			f.op = opComma
			r.maskValue(next, &f, false)
		}
	case c == '(' && at == end && r.quoteEnd(at+1) > at+1:
		f.op = opComma
		r.maskValue(at+1, &f, false)
	case c == '|' && is >= secretName:
		f.op = opIs
		r.maskValue(r.Skip(at+1, " \t"), &f, false)
	case c == '\n' || c == '\r':
	case at > end && !isQuoted:
		r.maskAfterBlank(at, &f, before)
	}
}

// marksEnd returns the position behind what may follow a name and belongs to it: the end of a
// quote, of an index and of bold letters, and blanks. It also reports whether the name is in
// quotes, and whether there is no blank.
func (r *reader) marksEnd(at int) (end int, isQuoted, isTight bool) {
	isTight = true
	for range 8 {
		if next := r.quoteEnd(at); next > at && isTight {
			at, isQuoted = next, true
			continue
		}
		if next := r.blankEnd(at); next > at {
			isTight = isTight && !strings.ContainsAny(r.S[at:next], " \t")
			at = next
			continue
		}
		switch c := r.Byte(at); {
		case c == '*' && isTight, c == ']', c == ')' && isQuoted,
			(c == '?' || c == '!') && r.Byte(at+1) == ':':
			at++
			continue
		case c >= '0' && c <= '9' && !isTight && !isQuoted: // Unseal Key 1:
			next := at + 1
			if d := r.Byte(next); d >= '0' && d <= '9' {
				next++
			}
			if r.Byte(next) == ':' {
				at = next
				continue
			}
		}
		return at, isQuoted, isTight
	}
	return at, isQuoted, isTight
}

// maskAfter masks the value behind an operator. It may stand on the next line.
func (r *reader) maskAfter(at int, f *form, url bool) {
	value := r.blankEnd(at)
	if f.op == opColon && value == at && !url && r.quoteEnd(at) == at && !isUpperName(f.name) {
		f.tight = true
	} else {
		f.tight = f.tight && value == at
	}
	if stop := r.Skip(value, "*"); stop > value && stop-value <= 2 && r.Byte(stop) == ' ' {
		value = r.blankEnd(stop)
	}
	if next := r.typedEnd(value); f.op == opColon && next > value {
		f.op, value = opEquals, next
	}
	if c := r.Byte(value); c == '|' || c == '>' {
		if f.op == opColon && f.is >= secretName && r.maskBlock(value) {
			return
		}
	}
	if r.Break(value) > value {
		r.maskNextLine(r.Break(value), f)
		return
	}
	r.maskValue(value, f, url)
}

// typedEnd returns where the value stands behind a type and an equals sign, as in
// name: string = "value". It returns the position itself if no type stands there.
func (r *reader) typedEnd(at int) int {
	end := at
	for end-at < 32 && !r.Ended(end) && (isNameByte[r.S[end]] || r.S[end] == '.') {
		end++
	}
	if next := r.Skip(end, " "); end > at && r.Byte(next) == '=' {
		if value := r.Skip(next+1, " "); r.quoteEnd(value) > value {
			return value
		}
	}
	return at
}

// maskNextLine masks the value that has the line behind its name, which is not an assignment
// itself.
func (r *reader) maskNextLine(at int, f *form) {
	value := r.blankEnd(at)
	if r.Ended(value) || r.Byte(value) == '#' {
		return
	}
	if f.op == opColon {
		if r.Byte(value) == '-' {
			r.line.items = f.is
			r.line.from = value - at
			return
		}
		if f.tight = false; value == at && f.is < secretName {
			return
		}
	}
	if c := r.Byte(r.wordEnd(value)); c == '=' || c == ':' {
		return
	}
	if f.op == opColon && r.quoteEnd(value) == value && r.quoteEnd(value) == value {
		f.op = opIs
		if value > at {
			f.op = opColon
		}
	}
	r.maskValue(value, f, false)
}

// maskBlock masks the lines of a block of YAML, whose sign stands at a position, and reports
// whether there is one.
func (r *reader) maskBlock(at int) bool {
	at = r.Skip(at+1, "+-0123456789")
	first := r.Break(r.Skip(at, " \t"))
	value := r.Skip(first, " ")
	if first == at || value == first {
		return false
	}
	indent := value - first
	end := value
	for {
		end = r.Any(end, "\n")
		next := r.Break(end)
		if next == end || r.Skip(next, " ")-next < indent || end-value > maxComposite {
			break
		}
		end = next
	}
	v := strings.TrimRight(r.S[value:end], " \r\n")
	if isMask(v) {
		return true // it stays
	}
	if strings.Contains(v, "-----BEGIN ") || isPlaceholder(v+" ") || v == "" ||
		isReference(v) {
		return false
	}
	r.maskSpan(value, value+len(v), "\n")
	return true
}

// pairValue returns where the value stands of a name that is itself a value, as in
// name="password" value="...". It returns 0 if none follows.
func (r *reader) pairValue(at int) int {
	next := at
	for next-at < 64 && strings.IndexByte(" \t\r\n\"',;<>/{}-", r.Byte(next)) >= 0 &&
		!r.Ended(next) {
		next++
	}
	for _, w := range [...]string{"value", "default", "string", "content"} {
		if !r.HasFold(next, w) {
			continue
		}
		end, _, _ := r.marksEnd(next + len(w))
		if w == "string" || w == "value" && r.Byte(end) == '>' {
			if r.Byte(end) == '>' {
				return end + 1
			}
			return 0
		}
		if o, value, _ := r.opAt(end); o == opEquals || o == opColon {
			return r.blankEnd(value)
		}
	}
	return 0
}

// maskElement masks the text of an XML element.
func (r *reader) maskElement(at int, f *form) {
	at = r.Skip(at, " \t\r\n")
	if r.Has(at, "<string>") {
		at += len("<string>")
	}
	if r.Has(at, "<![CDATA[") {
		at += len("<![CDATA[")
	}
	end := r.Any(at, "<]\n")
	for end > at && strings.IndexByte(" \t\r", r.S[end-1]) >= 0 {
		end--
	}
	if c := r.Byte(end); end > at && (c == '<' || c == ']') && f.isSecret(r.S[at:end]) {
		r.maskSpan(at, end, bareUntil)
	}
}

// arrowEnd returns the position behind an arrow at a position, and blanks, or the position itself.
func (r *reader) arrowEnd(at int) int {
	for _, arrow := range [...]string{"→", "⇒", "➜", "➔", "⟶", "->"} {
		if r.Has(at, arrow+" ") {
			return r.blankEnd(at + len(arrow))
		}
	}
	return at
}

// maskAfterBlank masks the value that follows a name without an operator: of a flag, of a line of a
// file for programs, or of a sentence.
func (r *reader) maskAfterBlank(at int, f *form, before byte) {
	f.op = opBlank
	at = r.arrowEnd(at)
	if r.Byte(at) == '-' || r.Has(at, "<<") || r.Has(at, "< ") { // a flag, or a redirection
		return
	}
	lead := strings.ToLower(leadOf(r.before(r.at)))
	switch {
	case before == '-' && f.is >= secretName, before == '-' && f.is == weakName:
	case lead == "env" || lead == "setenv" || lead == "setx" || lead == "arg":
	case f.name == "requirepass" || f.name == "masterauth" || f.name == "psk":
	case f.is == passwordTag && r.line.netrc:
	case r.HasFold(at, "is ") || r.HasFold(at, "was ") || r.HasFold(at, "to ") ||
		r.HasFold(at, "as ") || r.HasFold(at, "ist ") || r.HasFold(at, "lautet ") ||
		r.HasFold(at, "est ") || r.HasFold(at, "es "):
		f.op, at = opIs, r.blankEnd(at+strings.IndexByte(r.S[at:], ' '))
		if r.quoteEnd(at) > at && f.is == weakName {
			return
		}
	case f.is == passwordTag, lead == "set" && f.is >= secretName:
		f.op = opIs
	case f.is == secretName:
		f.op = opComma
		if strings.HasPrefix(f.name, "_") {
			f.op = opIs
		}
	case r.HasFold(at, "identified by "):
		at += len("identified by ")
	default:
		return
	}
	r.maskValue(at, f, false)
}

// maskValue masks the value that starts at a position. A value is in quotes or ends where bareEnd
// says.
func (r *reader) maskValue(at int, f *form, url bool) {
	if r.Ended(at) {
		return
	}
	if r.maskBraced(at, f); r.mask != "" {
		return
	}
	if f.op != opBlank && f.op != opIs && f.is >= listName && r.maskComposite(at, f.op, f) ||
		r.next > r.at && r.mask != "" {
		return
	}
	at = r.typeEnd(at)
	if open := r.quoteEnd(at); open > at {
		r.maskQuoted(at, open, f)
		return
	}
	end := r.markedEnd(at, r.bareEnd(at, url))
	seen := r.S[at:min(end, at+mostWeighed)]
	f.follower, f.rest = r.Byte(end), r.lineRest(end)
	if i := strings.IndexByte(seen, '('); i > 0 && f.isCode(seen) {
		open := at + i + 1
		if quote := r.quoteEnd(open); quote > open && !readsSecret(r.S[at:open]) {
			r.maskQuoted(open, quote, f)
		}
		return
	}
	if isScheme(seen) {
		if next := r.Skip(end, " \t"); next > end {
			at, end = next, r.markedEnd(next, r.bareEnd(next, url))
			f.follower, f.rest = r.Byte(end), r.lineRest(end)
		}
	}
	if end > at && f.isSecret(r.S[at:min(end, at+mostWeighed)]) {
		r.maskSpan(at, end, bareUntil)
	}
}

// maskBraced masks a password in the braces that connection strings of ODBC put around a value with
// a semicolon in it.
func (r *reader) maskBraced(at int, f *form) {
	const most = 128
	if f.is != passwordTag || f.op != opEquals || !f.tight || r.Byte(at) != '{' {
		return
	}
	part := r.Within(at, most)
	end := part.Any(at+1, "}\n")
	r.Join(part)
	if r.Byte(end) != '}' || !r.Ended(end+1) && strings.IndexByte(";\"'\r\n", r.S[end+1]) < 0 {
		return
	}
	f.quoted = true
	if v := r.S[at+1 : end]; !isName(v) && f.isSecret(v) {
		r.maskSpan(at+1, end, bareUntil)
	}
	f.quoted = false
}

// mostWeighed is how much of a bare value is weighed. A value may go on behind each name within it,
// so that more would take time that grows with the square of the text.
const mostWeighed = 512

// readsSecret reports whether a call reads a secret from somewhere, and what stands in its quotes
// is only a name.
func readsSecret(call string) bool {
	lower := strings.ToLower(call)
	for _, w := range [...]string{
		"env", "get", "read", "load", "input", "prompt", "fetch", "lookup", "find", "resolve",
		"param", "config",
		"property", "cli", "ask", "open", "secret(", "path", "ref", "field", "column", "require",
		"i18n", "t(", "_(",
	} {
		if strings.Contains(lower, w) {
			return true
		}
	}
	return false
}

// typeEnd returns the position behind what a language puts before the quotes of a string: b"", N”.
func (r *reader) typeEnd(at int) int {
	next := at
	for next-at < 2 && strings.IndexByte("bBrRuUfFLN@$", r.Byte(next)) >= 0 && !r.Ended(next) {
		next++
	}
	if c := r.Byte(next); next > at && (c == '"' || c == '\'') {
		return next
	}
	return at
}

// maskQuoted masks the value whose quote stands at a position and ends at another one.
func (r *reader) maskQuoted(at, open int, f *form) {
	f.quoted = true
	spelling := r.S[at:open]
	until := bareUntil
	var end int
	if len(spelling) > 1 { // escaped, as in JSON within a text
		part := r.Within(at, maxComposite)
		n := strings.Index(part.S[open:part.Any(open, "\n")], spelling)
		if n >= 0 {
			end = open + n
		} else {
			end = r.bareEnd(open, false)
			r.Join(part)
		}
	} else {
		until = spelling + "\n"
		end = r.quotedEnd(open, spelling[0])
	}
	if scheme := r.wordEnd(open); scheme < end && isScheme(r.S[open:scheme]) && r.S[scheme] == ' ' {
		open = r.Skip(scheme, " ")
	}
	if end > open && f.isSecret(r.S[open:end]) {
		r.maskSpan(open, end, until)
	}
}

// lineRest returns up to 32 bytes of what follows on the line.
func (r *reader) lineRest(at int) string {
	end := at
	for end-at < 32 && !r.Ended(end) && r.S[end] != '\n' {
		end++
	}
	return r.S[at:end]
}

// isScheme reports whether a value is the scheme of an authorization.
func isScheme(s string) bool {
	return strings.EqualFold(s, "bearer") || strings.EqualFold(s, "basic") ||
		strings.EqualFold(s, "token")
}

// maxComposite is how far the end of a list, an object or an escaped text is looked for, in bytes.
const maxComposite = 4096

// maskComposite masks the list or object that is the value at src[at], and reports whether one is.
// What is empty, refers to a secret or describes one, stays. A list is one with a mask, so that
// what reads the text again finds a list; an object is a mask. A single word in brackets is weighed
// as one without them, by the form of its name if there is one.
func (r *reader) maskComposite(at int, o op, f *form) bool {
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
	isQuoted := strings.IndexByte(inside, '"') >= 0 || strings.IndexByte(inside, '\'') >= 0
	if !isQuoted && !hasDense(inside) && !f.isBracketed(inside) || isSchema(inside) {
		return true
	}
	mask := `"***"`
	isList := r.S[at] == '[' && r.S[end-1] == ']'
	switch {
	case !isQuoted && o == opEquals && (isList || r.S[end-1] == '}'): // not JSON
		mask = r.S[at:at+1] + "***" + r.S[end-1:end]
	case isList:
		mask = `["***"]`
	}
	r.replace(at, end, mask, "")
	return true
}

// isBracketed reports whether a single word that stands in brackets is a secret: it has letters and
// digits, and would be one without the brackets.
func (f *form) isBracketed(word string) bool {
	const least = 8
	return f != nil && len(word) >= least && isMixed(word) &&
		!strings.ContainsAny(word, " \t\r\n,;:[]{}") && f.isSecret(word)
}

// isSchema reports whether the members of an object say what a secret is like, or where it is.
func isSchema(s string) bool {
	for _, w := range [...]string{
		`"type"`, `type:`, `'type'`, `"$ref"`, `"description"`, "secretKeyRef", "valueFrom",
		"external:", `"from"`, "file:",
	} {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// compositeEnd returns where the list or object ends that starts at a position.
//
// What closes nothing is passed at once. A text of openings asks for the end of each, which is four
// times as fast so.
func compositeEnd(v *ahead.View, at int) int {
	if rest := v.S[at:]; strings.IndexByte(rest, '"') < 0 && strings.IndexByte(rest, '}') < 0 &&
		strings.IndexByte(rest, ']') < 0 {
		v.Read(len(v.S) + 1)
		return len(v.S)
	}
	depth, quote := 0, byte(0)
	for ; at < len(v.S); at++ {
		c := v.S[at]
		if !compositeStops[c] {
			continue
		}
		switch {
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
			if depth--; depth == 0 {
				v.Read(at + 1)
				return at + 1
			}
		}
	}
	v.Read(len(v.S) + 1)
	return len(v.S)
}

// compositeStops are the bytes that compositeEnd looks at.
var compositeStops = letters(`"\[]{}`)

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
	return r.bareEnd(at, false)
}

// bareEnd returns where the value without quotes ends that starts at a position: at white space, a
// quote, a backslash, the next parameter of a query, or what closes the place where it stands.
func (r *reader) bareEnd(at int, url bool) int {
	from := at
	for ; ; at++ {
		if at = r.bareRun(at); r.Ended(at) {
			return at
		}
		switch c := r.S[at]; c {
		case ' ', '\t', '\r', '\n', '"', '\'':
			if next := r.wrapEnd(from, at); next > at {
				at = next - 1
				continue
			}
			return at
		case '\\':
			if next := r.transparentEnd(at); next > at {
				at = next - 1
				continue
			}
			if r.Byte(at+1) == '\n' {
				if next := r.wrapEnd(from, at); next > at {
					at = next - 1
					continue
				}
			}
			return at
		case '&':
			if n := r.wordEnd(at + 1); n > at+1 && (r.Byte(n) == '=' || r.Byte(n) == ';') {
				return at
			}
		case ';', ',':
			if r.endsValue(at + 1) {
				return at
			}
		case '<':
			if at > from {
				return at
			}
		case ')', ']', '}':
			if r.endsValue(at+1) && !strings.ContainsAny(r.S[from:at], "([{") {
				return at
			}
		case '%':
			if url && (r.Has(at, "%26") || r.Has(at, "%22") || r.Has(at, "%2C") ||
				r.Has(at, "%7D") || r.Has(at, "%0A") ||
				r.Has(at, "%20") || r.Has(at, "%27") || r.Has(at, "%3B")) {
				return at
			}
		case 0x1B:
			if next := r.transparentEnd(at); next > at && r.endsValue(next) {
				return at
			}
		}
	}
}

// markedEnd returns where the value without quotes from one position to another ends before what
// closes a mark of Markdown around it: inline code, emphasis or a link that was opened before it on
// its line. A backtick at its end closes code also where that was opened further away.
func (r *reader) markedEnd(at, end int) int {
	const most, behindMarks = 256, ".,;:!?)"
	before := r.S[max(0, r.at-behind, at-most):at]
	before = before[strings.LastIndexByte(before, '\n')+1:]
	v := r.S[at:min(end, at+mostWeighed)]
	if i := strings.IndexByte(v, '`'); i > 0 && opensCode(before) {
		return at + i
	}
	if i := strings.Index(v, "</"); i > 0 && strings.IndexByte(before, '<') >= 0 {
		return at + i
	}
	if i := strings.Index(v, "]("); i > 0 && at+i < end &&
		strings.LastIndexByte(before, '[') > strings.LastIndexByte(before, ']') {
		end = at + i
	}
	stop := at + len(strings.TrimRight(r.S[at:end], behindMarks))
	if stop > at+1 && r.S[stop-1] == '`' {
		return at + max(1, len(strings.TrimRight(r.S[at:stop], "`")))
	}
	c, n := openEmphasis(before)
	if from := stop - n; n > 0 && from > at && strings.Trim(r.S[from:stop], string(c)) == "" {
		return from
	}
	return end
}

// opensCode reports whether inline code is open at the end of a part of a line: it has an odd
// number of runs of backticks.
func opensCode(line string) (opens bool) {
	for i := range len(line) {
		if line[i] == '`' && (i == 0 || line[i-1] != '`') {
			opens = !opens
		}
	}
	return opens
}

// openEmphasis returns the mark of the emphasis that is open at the end of a part of a line, '*' or
// '_', and how many of it there are: 0 if none is open.
func openEmphasis(line string) (mark byte, n int) {
	for at := 0; at < len(line); {
		c, from := line[at], at
		for at++; at < len(line) && line[at] == c; at++ {
		}
		if c != '*' && c != '_' || at-from > 3 {
			continue
		}
		if c == '_' && from > 0 && isWordByte[line[from-1]] &&
			at < len(line) && isWordByte[line[at]] {
			continue // of a name
		}
		opens := from == 0 || !isWordByte[line[from-1]] && line[from-1] < utf8.RuneSelf
		switch {
		case n > 0 && c == mark && (!opens || at == len(line) || line[at] == ' '):
			n = 0
		case n == 0 && opens && at < len(line) && line[at] != ' ':
			mark, n = c, at-from
		}
	}
	return mark, n
}

// bareRun returns the position of the next of bareStops. Names may stand at many places before one,
// and the value of each of them goes on to it.
func (r *reader) bareRun(at int) int {
	from := at
	if r.bare != nil {
		at = min(r.bare.end(at), max(at, len(r.S)))
	}
	for at < len(r.S) && !bareStops[r.S[at]] {
		at++
	}
	if r.bare != nil {
		*r.bare = stretch{from, at}
	}
	return at
}

// bareStops are the bytes at which a value without quotes may end. bareEnd asks for no other, which
// is four times as fast on a long value.
var bareStops = letters(" \t\r\n\"'\\&;,<)]}%\x1b")

// endsValue reports whether what stands at a position shows that a value has ended before it.
func (r *reader) endsValue(at int) bool {
	if r.Ended(at) || strings.IndexByte(" \t\r\n\"'\\)]};,", r.S[at]) >= 0 {
		return true
	}
	n := at
	for n-at < 48 && !r.Ended(n) && (isWordByte[r.S[n]] || r.S[n] == ' ' || r.S[n] == '.') {
		n++
	}
	c := r.Byte(n)
	return n > at && (c == '=' || c == ':' && !isNameByte[r.Byte(n+1)])
}

// wrapEnd returns where a value goes on that a line break at a position has parted, or 0.
func (r *reader) wrapEnd(from, at int) int {
	if at-from < 20 || r.S[at] == '"' || r.S[at] == '\'' || r.S[at] == ' ' || r.S[at] == '\t' ||
		!isPart(plain(r.S[from:min(at, from+mostWeighed)])) && !isPart(plain(r.S[from:at])) {
		return 0
	}
	w := wrap{from: from, at: at, count: at - from, set: base64Both}
	if i := strings.LastIndexByte(r.S[from:at], '\n'); i >= 0 {
		w.feed = from + i + 1
		w.width = len(plain(r.S[w.feed:at]))
	}
	return r.continued(&w)
}
