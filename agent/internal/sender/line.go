package sender

import (
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

const (
	// saidBy begins the line that says who speaks.
	saidBy = "[message from "
	// Unknown is the line for one who is not known, between others that are.
	Unknown = saidBy + "a sender who is not known]\n"
)

// Line returns the line that says who speaks, or "" if that is not known. The id stands there in a
// form. In that of [text.ID] two people never have the same line unless they have the same id, or
// both none. A name is not an id: the line says where a sender has a name alone.
func Line(from session.Sender, form text.IDForm) string {
	switch {
	case from.IsZero():
		return ""
	case from.Name == "":
		return saidBy + "id " + form.Show(from.ID) + "]\n"
	case from.ID == "":
		return saidBy + quotedName(from.Name) + ", without an id]\n"
	}
	return saidBy + quotedName(from.Name) + ", id " + form.Show(from.ID) + "]\n"
}

// maxName is how many bytes of a name the line of a sender has.
const maxName = 200

// quotedName returns a name in quotation marks that anyone may have chosen. It has no character
// that could end the quotation, the line or its brackets, or begin a tag. Two names may become the
// same.
func quotedName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '\\':
			return '/'
		case text.IsQuotation(r):
			return '\''
		case r == '<', r == '＜', unicode.Is(unicode.Ps, r):
			return '('
		case r == '>', r == '＞', unicode.Is(unicode.Pe, r):
			return ')'
		}
		return r
	}, text.Line(text.Cut(name, 4*maxName)))
	return `"` + text.Cut(name, maxName) + `"`
}
