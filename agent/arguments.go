package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An ArgumentError is an argument of a session tool that cannot be accepted, or of a [NewTool] that
// cannot be decoded. It is told to the model.
type ArgumentError struct {
	Tool     string
	Argument string // its name, or "(all)" for all of them together
	Reason   string
	Err      error // what decoding it failed with, a *[spawn.PanicError] after a panic; or nil
}

func newArgumentError(tool, argument, reason string) *ArgumentError {
	return &ArgumentError{Tool: tool, Argument: argument, Reason: reason}
}

// allArguments is the Argument of an error of all of them together.
const allArguments = "(all)"

func (e *ArgumentError) Error() string {
	if e.Argument == allArguments {
		return e.Tool + ": the arguments: " + e.Reason
	}
	return fmt.Sprintf("%s: argument %s: %s", e.Tool, text.QuoteWhole(e.Argument), e.Reason)
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

// arguments reads arguments by name. An argument that has two names is given under one of them.
type arguments struct {
	tool  string
	m     map[string]json.RawMessage // by the names that the schema has
	given map[string]string          // the names with underscores that some are given under
	err   error
}

// readArguments reads the arguments of a call. An argument that is not among the known ones is an
// error: what a model asks for is not passed over in silence.
func readArguments(tool string, raw json.RawMessage, known ...string) (*arguments, error) {
	return readKnownArguments(tool, raw, known, func() []string { return known })
}

// readKnownArguments is readArguments for a tool that is not offered all that is known. The error
// names what is.
func readKnownArguments(
	tool string, raw json.RawMessage, known []string, offered func() []string,
) (*arguments, error) {
	a := &arguments{tool: tool}
	if len(bytes.TrimSpace(raw)) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(raw, &a.m); err != nil {
		return nil, newArgumentError(tool, allArguments, notObject(raw))
	}
	if name, twice := repeatedMember(raw); twice {
		return nil, newArgumentError(tool, name, "it is there twice")
	}
	for _, name := range slices.Sorted(maps.Keys(a.m)) {
		as := inOneWord(name)
		if slices.Contains(known, as) {
			a.rename(name, as)
			continue
		}
		if why, kept := keptParams[as]; tool == toolSpawn && kept {
			if asksForNothing(a.m[name]) {
				continue
			}
			return nil, newArgumentError(tool, name, why)
		}
		if tool == toolSpawn && slices.Contains(deliveryParams, as) {
			return nil, newArgumentError(
				tool, name, "a spawn does not take where to deliver: a model does not choose that",
			)
		}
		takes := "the tool takes none"
		if all := offered(); len(all) > 0 {
			takes = "the arguments are " + strings.Join(all, ", ")
		}
		return nil, newArgumentError(tool, name, "it is not known; "+takes)
	}
	return a, nil
}

// notObject says what the arguments of a call are in place of a JSON object.
func notObject(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	is := "a number"
	switch {
	case !json.Valid(raw):
		is = "not JSON"
		if len(raw) > 0 && raw[0] == '{' {
			is += ", such as an object that is not closed"
		}
	case raw[0] == '[':
		is = "a list"
	case raw[0] == '"':
		is = "a string"
	case raw[0] == 't', raw[0] == 'f':
		is = "true or false"
	}
	return "they are " + is + ", want a JSON object"
}

// rename has an argument that is given under a name be there under the one of the schema. The
// error of one that is there under both names it as it is given.
func (a *arguments) rename(name, as string) {
	raw := a.m[name]
	if name == as {
		return
	}
	delete(a.m, name)
	if string(raw) == "null" {
		return
	}
	if there, twice := a.m[as]; twice && string(there) != "null" {
		a.fail(name, "it is another name of %s, which is there too", as)
		return
	}
	if a.given == nil {
		a.given = make(map[string]string)
	}
	a.m[as], a.given[as] = raw, name
}

// inOneWord returns the name of an argument that is written with underscores as schemas write it:
// session_key is sessionKey.
func inOneWord(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	var b strings.Builder
	b.WriteString(first)
	for word := range strings.SplitSeq(rest, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// shortValue returns an argument, or how long it is: a part of it could be a part of a secret,
// which nothing that shows the error would know.
func shortValue(raw json.RawMessage) string {
	if len(raw) > 200 {
		return text.Count(len(raw), "byte", "bytes") + " of JSON"
	}
	return string(raw)
}

func (a *arguments) fail(name, format string, args ...any) {
	if a.err == nil {
		a.err = newArgumentError(a.tool, name, fmt.Sprintf(format, args...))
	}
}

// value returns an argument, and the name under which it is given; nil for none.
func (a *arguments) value(names ...string) (raw json.RawMessage, as string) {
	for _, name := range names {
		got, ok := a.m[name]
		switch {
		case !ok || string(got) == "null":
		case raw != nil:
			a.fail(cmp.Or(a.given[name], name), "it is another name of %s, which is there too", as)
		default:
			raw, as = got, cmp.Or(a.given[name], name)
		}
	}
	return raw, as
}

func (a *arguments) text(names ...string) string {
	raw, name := a.value(names...)
	if raw == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		a.fail(name, "it is %s, want a string", shortValue(raw))
	}
	return strings.TrimSpace(s)
}

func (a *arguments) word(name string, allowed ...string) string {
	s := a.text(name)
	if s == "" || slices.Contains(allowed, s) {
		return s
	}
	a.fail(name, "it is %s, want one of %s", text.QuoteWhole(s), strings.Join(allowed, ", "))
	return ""
}

func (a *arguments) flag(name string) bool {
	raw, name := a.value(name)
	switch string(raw) {
	case "", "false":
		return false
	case "true":
		return true
	}
	a.fail(name, "it is %s, want true or false", shortValue(raw))
	return false
}

// A numberRange is what a number may be. What is above most is taken for that.
type numberRange struct {
	least, most float64
	whole       bool
	// without says why the argument may be left out. What else a model may mean by less, to wait
	// for nothing or without end, it must say: without is what it gets if it leaves the argument
	// out, or empty where that is plain.
	without string
}

// String returns what is wanted.
func (r numberRange) String() string {
	s := "a number"
	if r.whole {
		s = "a whole number"
	}
	if r.most >= math.MaxInt32 {
		s += fmt.Sprintf(", %v or more", r.least)
	} else {
		s += fmt.Sprintf(" from %v to %s", r.least, strconv.FormatFloat(r.most, 'f', -1, 64))
	}
	if r.without != "" {
		s += "; leave it out " + r.without
	}
	return s
}

// number returns a number of a range, and whether it is given: 0 is that of an argument that is
// left out. So it is with each argument whose schema says number or integer: what is below its
// minimum, or not whole where that is asked for, is refused, and what is above its maximum is taken
// for that.
func (a *arguments) number(r numberRange, names ...string) (float64, bool) {
	raw, name := a.value(names...)
	if raw == nil {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // as 1e999 is, which is more than any maximum
	}
	isPart := r.whole && !math.IsInf(x, 0) && x != math.Trunc(x)
	if err != nil || !isNumber(raw) || x < r.least || isPart {
		a.fail(name, "it is %s, want %v", shortValue(raw), r)
		return 0, true
	}
	return min(x+0, r.most), true // -0+0 is 0
}

// isNumber reports whether a JSON value is a number: ParseFloat takes more than JSON has.
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// whole returns a whole number from least on, at most limit, or 0 for an argument that is left out.
func (a *arguments) whole(least, limit int, without string, names ...string) int {
	x, _ := a.number(numberRange{float64(least), float64(limit), true, without}, names...)
	return int(min(x, float64(limit)))
}

// words returns a list of words, each of which is one of the allowed, in any letter case of ASCII.
func (a *arguments) words(name string, allowed []string) (list []string) {
	raw, name := a.value(name)
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		a.fail(name, "it is %s, want a list of words, each one of %s", shortValue(raw),
			strings.Join(allowed, ", "))
		return nil
	}
	for i, word := range list {
		list[i] = strings.ToLower(strings.TrimSpace(word))
		if !slices.Contains(allowed, list[i]) {
			a.fail(name, "it has %s, want a list of words, each one of %s", text.QuoteWhole(word),
				strings.Join(allowed, ", "))
		}
	}
	return list
}

// count returns a whole number from 1, at most limit, or without if the argument is left out.
func (a *arguments) count(without, limit int, names ...string) int {
	return cmp.Or(a.whole(1, limit, "", names...), without)
}

// minutes returns a whole number of minutes, at most limit. 0 is as an argument that is left out.
func (a *arguments) minutes(limit int, names ...string) time.Duration {
	return time.Duration(a.whole(0, limit, "", names...)) * time.Minute
}

// hint reads the argument attachAs, a text or an object with a mountPath.
func (a *arguments) hint(names ...string) string {
	raw, name := a.value(names...)
	if raw == nil {
		return ""
	}
	var as struct {
		MountPath  *string `json:"mountPath"`
		MountPath2 *string `json:"mount_path"`
	}
	var hint string
	if json.Unmarshal(raw, &hint) == nil {
		return strings.TrimSpace(hint)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(&as) != nil || as.MountPath != nil && as.MountPath2 != nil {
		a.fail(name, "it is %s, want a string, or an object with a mountPath", shortValue(raw))
		return ""
	}
	if path := cmp.Or(as.MountPath, as.MountPath2); path != nil {
		hint = *path
	}
	return strings.TrimSpace(hint)
}

// A toldError is an error of a session tool in words for a model. Programs find in it the error as
// it was.
type toldError struct {
	words string
	err   error
}

func (e *toldError) Error() string { return e.words }

// Unwrap returns the error as it was.
func (e *toldError) Unwrap() error { return e.err }

// told returns an error of a session tool in words for a model. What the words do not say is in the
// log: the text of a store's error may have the paths of files and the keys of other trees.
func (h toolHost) told(tool string, err error) error {
	if err == nil {
		return nil
	}
	words, whole := modelWords(err)
	if words == err.Error() {
		return err
	}
	if !whole {
		h.rt.log.Warn("offshoot: a session tool failed", "session", h.session.key.String(),
			"tool", tool, "error", redact(err).Error())
	}
	return &toldError{words, err}
}

// unsaid is what a model is told of an error of which nothing may be said.
const unsaid = "agent: this cannot be done now; the program knows the reason"

// modelWords returns what a model may be told of an error: what Offshoot says itself of arguments,
// rules, limits and what is on record. What such an error wraps, and what wraps it, may be the text
// of a store, and is left out. Whole is false where a store or a function of the Config has failed,
// so that there is more to know.
func modelWords(err error) (words string, whole bool) {
	for _, as := range []func(error) error{
		asError[*toldError], asError[*ArgumentError], asError[*TargetError],
		asError[*policy.Refusal], asError[*VetoError], asError[*spawn.CallbackError],
		asError[*LimitError], asError[*InputError], asError[*spawn.KeyConflictError],
		asError[*spawn.NameTakenError], asError[*spawn.EndedError], asError[*ChildrenError],
		asError[*MissingCredentialError],
	} {
		if said := as(err); said != nil {
			return said.Error(), true
		}
	}
	if failed, ok := errors.AsType[*CallbackError](err); ok && failed.Err != nil {
		inner, whole := modelWords(failed.Err)
		if inner == unsaid {
			inner = "it failed"
		}
		return "agent: " + failed.Field + ": " + inner, whole
	}
	for _, is := range []error{
		ErrStale, ErrShutdown, ErrAnnouncing, ErrArchived, spawn.ErrStopping, ErrEnded, ErrNotFound,
		ErrBudget, ErrKeyConflict, session.ErrNoFiles,
	} {
		if errors.Is(err, is) {
			return is.Error(), true
		}
	}
	for _, is := range []error{
		ErrUnconfirmed, ErrNotRecorded, ErrUnreadable, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, is) {
			return is.Error(), false
		}
	}
	return unsaid, false
}

// asError returns the first error of a type in a chain, or nil.
func asError[E error](err error) error {
	if found, ok := errors.AsType[E](err); ok {
		return found
	}
	return nil
}
