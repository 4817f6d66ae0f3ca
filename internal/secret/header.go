package secret

import "strings"

// maskHeader masks the credentials of the HTTP header whose name ends at a position. After a
// scheme, such as in "Authorization: Bearer abc", it masks what follows the scheme. Without a
// scheme, such as in "Cookie: sid=abc", it masks the whole value.
func (r *reader) maskHeader(end int) {
	isCookie := r.S[end-1]|0x20 == 'e'
	at, isQuoted, _ := r.marksEnd(end)
	o, next, _ := r.opAt(at)
	switch {
	case o != opNone:
		at = r.blankEnd(next)
	case r.Byte(at) == ',' && isQuoted:
		if at = r.blankEnd(at + 1); r.quoteEnd(at) == at {
			return
		}
	case isQuoted && r.Byte(at) != '\n' && r.pairValue(at) > 0:
		at = r.pairValue(at)
	case at > end && r.quoteEnd(at) > at: // proxy_set_header Authorization "..."
	default:
		return
	}
	if stop := r.Skip(at, "*"); stop > at && stop-at <= 2 {
		at = r.blankEnd(stop)
	}
	if r.maskComposite(at, opColon, nil) {
		return
	}
	quote := r.quoteEnd(at)
	until := headerUntil
	if quote > at && r.S[quote-1] == '`' {
		until += "`"
	}
	if quote == at {
		for _, w := range [...]string{"digest ", "oauth ", "hawk ", "signature "} {
			if r.HasFold(at, w) { // its parameters are in quotes
				until = "\r\n"
			}
		}
	}
	at = quote
	if head := r.Within(at, maxHeaderHead); head.Any(at, until) == at+maxHeaderHead {
		if v := r.S[at : at+maxHeaderHead]; !isHeaderValue(plain(v[r.schemeEnd(at,
			at+maxHeaderHead)-at:]), isCookie) {
			r.Join(head)
			return
		}
	}
	stop := r.Any(at, until)
	cut := stop == len(r.S)
	for stop > at && r.S[stop-1] == '\\' { // of an escaped quote
		stop--
	}
	if i := strings.Index(r.S[at:stop], "&quot;"); i >= 0 {
		stop = at + i
	}
	if i := strings.Index(r.S[at:stop], "%22"); i >= 0 {
		stop = at + i
	}
	if i := strings.Index(r.S[at:stop], `\r\n`); i >= 0 {
		stop = at + i
	} else if i := strings.Index(r.S[at:stop], `\n`); i >= 0 {
		stop = at + i
	}
	if end := r.markedEnd(at, stop); end < stop {
		stop, cut = end, false
	}
	at = r.schemeEnd(at, stop)
	if c := r.Byte(stop); (c == '\n' || c == '\r') && !isCookie && stop-at >= 20 {
		stop = max(stop, r.run1(at, base64Tilde)) // a line break within a token
	}
	stop = max(at, at+len(strings.TrimRight(r.S[min(at, stop):stop], " \t")))
	if stop <= at || !isHeaderValue(plain(r.S[at:stop]), isCookie) {
		return
	}
	r.maskSpan(at, stop, "")
	if cut {
		r.next, r.until = len(r.S), headerUntil
	}
}

// maxHeaderHead is how much of a long header tells whether it is secret, in bytes.
const maxHeaderHead = 512

// schemeEnd returns the position behind the scheme at a position, or that position without one.
func (r *reader) schemeEnd(at, stop int) int {
	if scheme := r.wordEnd(at); scheme < stop && r.S[scheme] == ' ' {
		return min(r.Skip(scheme, " \t"), stop)
	}
	return at
}

// isHeaderValue reports whether the value of a header, behind its scheme, is a credential and not
// a word about one.
func isHeaderValue(v string, isCookie bool) bool {
	if v == "" || isMask(v) {
		return v != ""
	}
	first := firstField(v)
	switch lower := strings.ToLower(strings.TrimRight(first, ".,;")); {
	case isReference(v), isFiller(first), isPlaceholder(first), isPlaceholder(v),
		constants[lower], fillWords[lower],
		strings.HasPrefix(lower, "undefined"), v[0] == '<', v[0] == '{', isCode(first) &&
			!isMixed(first):
		return false
	case isCookie && strings.IndexByte(v, '=') < 0:
		return false
	case isCookie:
		return isCookieSecret(v)
	}
	return isMixed(first) || len(strings.Fields(v)) <= 2 || !isProse(v)
}

// firstField returns what stands before the first blank of a value behind those it begins with, or
// "x" if it has nothing else.
func firstField(v string) string {
	for field := range strings.FieldsSeq(v) {
		return field
	}
	return "x"
}

// isCookieSecret reports whether one of the pairs of a cookie is more than a setting.
func isCookieSecret(v string) bool {
	for pair := range strings.SplitSeq(v, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch strings.ToLower(name) {
		case "path", "domain", "expires", "max-age", "samesite", "":
			continue
		}
		if len(value) >= 16 || isMixed(value) && len(value) > 4 {
			return true
		}
		lower := strings.ToLower(name)
		for _, w := range [...]string{"sess", "sid", "token", "auth", "jwt", "key", "secret"} {
			if value != "" && strings.Contains(lower, w) {
				return true
			}
		}
	}
	return strings.HasPrefix(v, "***") || strings.Contains(v, "…")
}
