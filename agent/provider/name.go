package provider

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// Name returns the name that a provider has for a model: that of a ModelRequest, "provider/model",
// without the name of the provider and its slash. A name without a slash stays as it is. An empty
// one is the usual one.
//
// The error is a *[spawn.InputError] for a model of another provider, for a name that has more than
// [MaxName] bytes, a line break or another control character, and if there is no name.
func Name(provider, name, usual string) (string, error) {
	if name == "" {
		name = usual
	}
	of, model, ok := strings.Cut(name, "/")
	switch {
	case name == "":
		return "", &spawn.InputError{
			Field: "ModelRequest.Model", Reason: "it is empty, and the client has no Model of its own",
		}
	case !isName(name):
		return "", &spawn.InputError{Field: "ModelRequest.Model", Reason: fmt.Sprintf(
			"%.100q has a line break or another control character, or more than %d bytes", name, MaxName)}
	case !ok:
		return name, nil
	case !strings.EqualFold(of, provider):
		return "", &spawn.InputError{Field: "ModelRequest.Model", Reason: fmt.Sprintf(
			"%q is of the provider %q, and the client is of %q", name, of, provider)}
	case model == "":
		return "", &spawn.InputError{
			Field: "ModelRequest.Model", Reason: fmt.Sprintf("%q names no model", name),
		}
	}
	return model, nil
}

// Ran returns the name of the model that a provider says has run, as a Config names it. A dated
// edition of the model that was asked for, such as model-1-2026-11-27 or model-1-20261127, is that
// model: the prices and rules of the Config hold for it. So is what cannot be a name, see [Name].
func Ran(provider, asked, ran string) string {
	date, ok := strings.CutPrefix(ran, asked+"-")
	if ran == "" || ok && isDate(date) || !isName(ran) {
		ran = asked
	}
	return provider + "/" + ran
}

// isDate reports whether a text is a date: 2026-11-27 or 20261127.
func isDate(text string) bool {
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) != len("20261127") || len(text) != len(digits) && len(text) != len(digits)+2 {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// MaxName is how many bytes the name of a model has at most.
const MaxName = 512

// isName reports whether a text can be the name of a model, and so stand in a line of a log.
func isName(text string) bool {
	return len(text) <= MaxName && utf8.ValidString(text) && !strings.ContainsFunc(text,
		func(r rune) bool { return !isPlain(r) })
}

// isPlain reports whether a character does not change the line that it stands in.
func isPlain(r rune) bool {
	return !unicode.IsControl(r) && !unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
