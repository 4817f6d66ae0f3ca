package provider

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// Name returns the name that a provider has for a model: that of a ModelRequest, "provider/model",
// without the name of the provider and its slash. A name without a slash stays as it is. An empty
// one is the usual one.
//
// The error is a *[spawn.InputError] for a model of another provider, and if there is no name.
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
// model: the prices and rules of the Config hold for it.
func Ran(provider, asked, ran string) string {
	if date, ok := strings.CutPrefix(ran, asked+"-"); ran == "" || ok && isDate(date) {
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
