package mask

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// A fault says what is wrong with an address. Its text stands behind that of the package which
// people use, and does not have the name of this one.
type fault string

func (f fault) Error() string { return string(f) }

// ErrAddress is the error of an address that cannot be taken apart. It has no part of the address:
// what looks like a port may be half a password.
var ErrAddress error = fault("it is not the URL of a server; in a user, a password or a token, " +
	"write % as %25, / as %2F, # as %23, ? as %3F, @ as %40, a comma as %2C and a space as %20")

// errHidden is the error for one whose text may have a credential.
var errHidden error = fault("it does not parse; what is wrong with it may name a credential, and " +
	"is not said here")

// hidden stands in a text for what is left out.
const hidden = "***"

// maxAddress is how many bytes of an address stand in a text at most.
const maxAddress = 500

// Address returns an address of a server, or a list of them with commas between, as it may stand in
// an error or a log. It leaves out users, passwords and tokens, whether the address parses or not.
// In doubt it leaves out more.
func Address(text string) string {
	var out []string
	for _, one := range split(text) {
		out = append(out, addressOf(one))
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.Join(out, ","))
	if len(text) > maxAddress {
		text = strings.ToValidUTF8(text[:maxAddress], "") + "..."
	}
	return text
}

// split returns the addresses of a list. A comma may be one of a password: a part with an @ that
// does not begin with a scheme belongs to what is before it.
func split(text string) (list []string) {
	for part := range strings.SplitSeq(text, ",") {
		if n := len(list); n > 0 && strings.Contains(part, "@") && !strings.Contains(part, "://") {
			list[n-1] += "," + part
			continue
		}
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// addressOf returns Address of one address.
func addressOf(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok:
		scheme, rest = "", text
	case strings.ContainsFunc(scheme, func(r rune) bool { return !isWord(r) }):
		scheme = hidden + "://"
	default:
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = hidden + rest[at:]
	}
	if at := strings.IndexAny(rest, "?#"); at >= 0 {
		rest = rest[:at+1] + hidden
	}
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !isPort(host[at+1:]) {
		return scheme + host[:at+1] + hidden
	}
	if path != "" {
		host += "/" + path
	}
	return scheme + host
}

// isPort reports whether a text after a colon is a port, or the end of an address of IPv6.
func isPort(text string) bool {
	return strings.HasSuffix(text, "]") || strings.Trim(text, "0123456789") == ""
}

// Check returns [ErrAddress] unless text is a list of URLs of servers, with commas between, that
// can be taken apart without a doubt. The scheme may be missing.
func Check(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "any://" + one
		}
		u, err := url.Parse(one)
		if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
			return ErrAddress
		}
	}
	return nil
}

// Error returns err, or an error without a text of the driver if that has a word of secret that is
// not one of plain. The error that it returns then wraps none.
func Error(err error, secret string, plain ...string) error {
	have := wordsOf(secret)
	for _, word := range wordsOf(err.Error()) {
		if slices.Contains(have, word) && !slices.Contains(plain, word) {
			return errHidden
		}
	}
	return err
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) })
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
