package tree

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// The values that journals are full of are encoded by hand, byte for byte as encoding/json encodes
// them, which TestCodecRoundTrip checks. That takes about an eighth of the time of reflection, and
// none of its 31 allocations (BenchmarkAppendJSON: the facts that a child adds).

// AppendJSON implements session.Payload: it appends the fact as one JSON object without a newline.
func (f *Fact) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(f.version()), 10)
	b = append(b, `,"kind":"`...)
	b = append(b, f.Kind.String()...)
	b = append(b, `","at":`...)
	b = strconv.AppendInt(b, f.At, 10)
	b = appendText(b, "run", Text(f.Run.String()))
	b = appendUint(b, "state", uint64(f.State))
	b = appendUint(b, "cause", uint64(f.Cause))
	b = appendUint(b, "class", uint64(f.Class))
	b = appendUint(b, "flags", uint64(f.Flags))
	b = appendUint(b, "n", uint64(f.N))
	b = appendUint(b, "ord", uint64(f.Ord))
	b = appendInt(b, "until", f.Until)
	b = appendUint(b, "num", f.Num)
	b = appendText(b, "id", Text(f.ID()))
	b = appendText(b, "text", f.Text)
	b = appendText(b, "from", Text(f.From().String()))
	b = appendBudget(b, "budget", f.Budget())
	var err error
	if f.Spec != nil {
		b, err = f.Spec.appendJSON(appendName(b, "spec"))
	}
	if f.Begin() != nil {
		b, err = appendValue(b, err, "begin", f.Begin())
	}
	if f.Answer != nil && err == nil {
		b, err = f.Answer.appendJSON(appendName(b, "answer"))
	}
	if f.Join() != nil {
		b, err = appendValue(b, err, "join", f.Join())
	}
	if f.Route != nil {
		b, err = appendValue(b, err, "route", f.Route)
	}
	if f.Skills() != nil {
		b, err = appendValue(b, err, "skills", f.Skills())
	}
	if f.Mail() != nil {
		b, err = appendValue(b, err, "mail", f.Mail())
	}
	if f.Image() != nil {
		b, err = appendValue(b, err, "image", f.Image())
	}
	if len(f.Senders()) > 0 {
		b, err = appendValue(b, err, "senders", f.Senders())
	}
	if f.Elsewhere {
		b = append(appendName(b, "elsewhere"), "true"...)
	}
	return append(b, '}'), err
}

// CheckJSON returns nil if AppendJSON succeeds: only a role without a name and a cost that is not a
// finite number cannot be encoded.
func (f *Fact) CheckJSON() error {
	err := cmp.Or(f.Spec.checkJSON(), f.Answer.checkJSON())
	if f.Image() == nil || err != nil {
		return err
	}
	for i := range f.Image().Runs {
		r := &f.Image().Runs[i]
		err = cmp.Or(r.Spec.checkJSON(), r.Usage.checkJSON(), r.Answer.checkJSON(),
			r.Ledger.checkJSON())
		for j := range r.Past {
			err = cmp.Or(err, r.Past[j].checkJSON())
		}
		if err != nil {
			return err
		}
	}
	for i := range f.Image().Spawned {
		s := &f.Image().Spawned[i]
		if err = cmp.Or(s.Spec.checkJSON(), s.End.checkJSON()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) checkJSON() error {
	if s == nil || s.Grant == nil {
		return nil
	}
	return checkRole(s.Role)
}

func checkRole(r session.Role) error {
	if r <= session.RoleLeaf {
		return nil
	}
	_, err := r.MarshalText() // it allocates the name of a role that has one
	return err
}

func (p *Past) checkJSON() error {
	if p == nil {
		return nil
	}
	return cmp.Or(p.Usage.checkJSON(), p.Answer.checkJSON())
}

func (a *Result) checkJSON() error {
	if a == nil {
		return nil
	}
	err := a.Usage.checkJSON()
	for i := range a.ByModel() {
		err = cmp.Or(err, a.ByModel()[i].checkJSON())
	}
	return err
}

func (l *Ledger) checkJSON() (err error) {
	if l == nil {
		return nil
	}
	for _, list := range [...][]UsageSeries{l.Own, l.Below} {
		for i := range list {
			for _, rows := range [...][]UsageRow{list[i].Days, list[i].Quarters} {
				for j := range rows {
					err = cmp.Or(err, rows[j].checkJSON())
				}
			}
		}
	}
	return err
}

func (u *Usage) checkJSON() error {
	if math.IsNaN(u.Cost) || math.IsInf(u.Cost, 0) {
		return fmt.Errorf("spawn: the cost %v cannot be written", u.Cost)
	}
	return nil
}

// MarshalJSON implements json.Marshaler: the order of members is that of earlier libraries.
func (s *Spec) MarshalJSON() ([]byte, error) { return s.appendJSON(nil) }

func (s *Spec) appendJSON(b []byte) (_ []byte, err error) {
	start, m := len(b), s.more()
	b = appendString(appendName(b, "id"), s.ID)
	b = appendString(appendName(b, "sessionId"), s.SessionID)
	b = appendString(appendName(b, "key"), s.Key.String())
	b = appendString(appendName(b, "parent"), s.Parent.String())
	b = appendWord(b, "spawnKey", m.SpawnKey)
	b = appendWord(b, "digest", m.Digest)
	b = appendWord(b, "request", m.Request)
	b = appendTrue(b, "byModel", s.ByModel)
	b = s.Task.appendJSON(appendName(b, "task"))
	b = appendWord(b, "label", m.Label)
	b = appendWord(b, "name", m.Name)
	b = appendTrue(b, "announce", s.Announce)
	b = appendTrue(b, "milestones", s.Milestones)
	b = appendTrue(b, "thread", s.Thread)
	b = appendTrue(b, "session", s.Session)
	b = appendTrue(b, "delete", s.Delete)
	b = appendTrue(b, "step", s.Step)
	b = appendTrue(b, "update", s.Update)
	if len(m.Extra) > 0 {
		b = append(appendName(b, "extra"), '"')
		b = append(base64.StdEncoding.AppendEncode(b, m.Extra), '"')
	}
	b = appendRoute(b, "route", m.Route)
	b = strconv.AppendInt(appendName(b, "created"), s.Created, 10)
	b = appendSenders(b, "senders", m.Senders)
	if s.Grant != nil {
		b, err = s.Grant.appendFields(b)
	}
	return closeObject(b, start), err
}

// appendFields appends the fields of g to the object of the Spec that embeds it. It returns an
// error for a role that has no name.
func (g *Grant) appendFields(b []byte) ([]byte, error) {
	if err := checkRole(g.Role); err != nil {
		return b, err
	}
	b = appendString(appendName(b, "agent"), g.Agent)
	b = appendString(appendName(b, "role"), g.Role.String())
	b = strconv.AppendInt(appendName(b, "depth"), int64(g.Depth), 10)
	b = appendInt(b, "maxDepth", int64(g.MaxDepth))
	b = appendTrue(b, "sandboxed", g.Sandboxed)
	b = appendStrings(b, "tools", g.Tools)
	b = appendStrings(b, "delegable", g.Delegable)
	b = appendWord(b, "asked", g.Asked)
	b = appendWord(b, "model", g.Model)
	b = appendWord(b, "thinking", g.Thinking)
	b = appendStrings(b, "warnings", g.Warnings)
	b = appendInt(b, "timeout", g.Timeout)
	return appendBudget(b, "budget", g.Budget), nil
}

func (a *Result) appendJSON(b []byte) (_ []byte, err error) {
	start := len(b)
	b = appendText(b, "text", a.Text)
	b = appendText(b, "json", a.JSON)
	b = appendList(b, "files", a.Files)
	b = appendText(b, "model", a.Model)
	b, err = appendUsage(b, err, "usage", &a.Usage)
	b = appendText(b, "fallback", a.Fallback)
	b = appendText(b, "reply", a.Reply)
	b = appendText(b, "replyTo", a.ReplyTo)
	b = appendTrue(b, "voice", a.Voice)
	b = appendText(b, "refused", a.Refused())
	b, err = appendParts(b, err, "byModel", a.ByModel())
	if !a.Whole().IsZero() {
		b, err = appendValue(b, err, "whole", a.Whole())
	}
	if !a.WholeJSON().IsZero() {
		b, err = appendValue(b, err, "wholeJSON", a.WholeJSON())
	}
	return closeObject(b, start), err
}

func (f *File) appendJSON(b []byte) []byte {
	start := len(b)
	b = f.Name.appendJSON(appendName(b, "name"))
	b = appendText(b, "path", f.Path)
	b = appendText(b, "mediaType", f.MediaType)
	return closeObject(b, start)
}

func (m *ModelUsage) appendJSON(b []byte) ([]byte, error) {
	start := len(b)
	b = appendText(b, "model", m.Model)
	b, err := m.appendFields(b)
	return closeObject(b, start), err
}

// appendUsage appends a field unless u is zero. It does nothing if err is not nil.
func appendUsage(b []byte, err error, name string, u *Usage) ([]byte, error) {
	if *u == (Usage{}) || err != nil {
		return b, err
	}
	b = appendName(b, name)
	start := len(b)
	b, err = u.appendFields(b)
	return closeObject(b, start), err
}

// appendFields appends the fields of u to an object. It returns an error for a cost that is not a
// finite number.
func (u *Usage) appendFields(b []byte) ([]byte, error) {
	b = appendInt(b, "input", u.Input)
	b = appendInt(b, "output", u.Output)
	b = appendInt(b, "cacheRead", u.CacheRead)
	b = appendInt(b, "cacheWrite", u.CacheWrite)
	if u.Cost == 0 {
		return b, nil
	}
	return appendFloat(appendName(b, "cost"), u.Cost)
}

// appendBudget appends a field unless amount is zero.
func appendBudget(b []byte, name string, amount Budget) []byte {
	if amount == (Budget{}) {
		return b
	}
	b = appendName(b, name)
	start := len(b)
	b = appendInt(b, "tokens", amount.Tokens)
	b = appendInt(b, "micros", amount.Micros)
	b = appendInt(b, "turns", amount.Turns)
	return closeObject(b, start)
}

// closeObject turns the fields from start on, each of which begins with a comma, into an object.
func closeObject(b []byte, start int) []byte {
	if len(b) == start {
		return append(b, "{}"...)
	}
	b[start] = '{'
	return append(b, '}')
}

// closeList turns the elements from start on, each of which begins with a comma, into a list.
func closeList(b []byte, start int) []byte {
	if len(b) == start {
		return append(b, "[]"...)
	}
	b[start] = '['
	return append(b, ']')
}

// appendName appends a comma, and the name of a field with its colon.
func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// The following functions append a field unless its value is zero.

func appendUint(b []byte, name string, v uint64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendUint(appendName(b, name), v, 10)
}

func appendInt(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), v, 10)
}

func appendTrue(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(appendName(b, name), "true"...)
}

func appendText(b []byte, name string, t Text) []byte {
	if t == "" {
		return b
	}
	return t.appendJSON(appendName(b, name))
}

func appendWord(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(appendName(b, name), s)
}

func appendStrings(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = appendName(b, name)
	start := len(b)
	for _, s := range list {
		b = appendString(append(b, ','), s)
	}
	return closeList(b, start)
}

// appendValue appends a field, by reflection unless v is encoded by hand. It does nothing if err is
// not nil.
func appendValue(b []byte, err error, name string, v any) ([]byte, error) {
	if err != nil {
		return b, err
	}
	switch v := v.(type) {
	case fallible:
		return v.appendJSON(appendName(b, name))
	case plain:
		return v.appendJSON(appendName(b, name)), nil
	case *session.Route:
		return appendRoute(b, name, v), nil
	case []policy.Sender:
		return appendSenders(b, name, v), nil
	}
	data, err := json.Marshal(v)
	return append(appendName(b, name), data...), err
}

// appendFloat appends f as JSON, or returns the error of encoding/json for what is not finite.
// Whole cents and the like are most of what there is.
func appendFloat(b []byte, f float64) ([]byte, error) {
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64), nil
	}
	text, err := json.Marshal(f)
	return append(b, text...), err
}

// appendJSON appends t as JSON.
func (t Text) appendJSON(b []byte) []byte {
	if b, ok := appendPlain(b, string(t)); ok {
		return b
	}
	text, _ := json.Marshal(t) // it never fails
	return append(b, text...)
}

// appendString appends s as JSON, with U+FFFD in the place of what is not UTF-8.
func appendString(b []byte, s string) []byte {
	if b, ok := appendPlain(b, s); ok {
		return b
	}
	text, _ := json.Marshal(s) // it never fails
	return append(b, text...)
}

// appendPlain appends s as JSON, unless s is not UTF-8 or has a separator of lines that texts
// seldom have: then it returns b and false. An image of texts with several lines takes three
// quarters of the time that it takes with those by encoding/json (BenchmarkSnapshot).
func appendPlain(b []byte, s string) (_ []byte, ok bool) {
	const hex = "0123456789abcdef"
	start, from := len(b), 0
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch e := escapes[c]; {
		case e == 0:
			i++
		case e != 'u':
			b = append(append(b, s[from:i]...), '\\', e)
			i++
			from = i
		case c < utf8.RuneSelf:
			b = append(append(b, s[from:i]...), `\u00`...)
			b = append(b, hex[c>>4], hex[c&15])
			i++
			from = i
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
				return b[:start], false
			}
			i += size
		}
	}
	return append(append(b, s[from:]...), '"'), true
}

// escapes has what stands after the backslash for each byte, as encoding/json writes it. 0: the
// byte stands for itself. u: it is written by its number, or is a part of a rune.
var escapes = func() (list [256]byte) {
	for c := range list {
		if c < ' ' || c >= utf8.RuneSelf || strings.IndexByte("<>&", byte(c)) >= 0 {
			list[c] = 'u'
		}
	}
	list['"'], list['\\'] = '"', '\\'
	list['\b'], list['\f'], list['\n'], list['\r'], list['\t'] = 'b', 'f', 'n', 'r', 't'
	return list
}()

// Text is a string that survives JSON byte for byte. A Text that is UTF-8 is written as a string,
// any other as an object with its base64 encoding.
type Text string

// MarshalJSON implements json.Marshaler. It does not fail. Whether <, > and & are escaped is left
// to the encoder that calls it: an escape takes six bytes for one.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(string(t))
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var w struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(data, &w); err != nil {
			return err
		}
		*t = Text(w.Base64)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}
