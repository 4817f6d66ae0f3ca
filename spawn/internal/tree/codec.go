package tree

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/session"
)

// Version is the version of the codec. A journal that holds a fact of another version, or of an unknown kind, is refused:
// guessing at facts would be a way to lose results.
const Version = 1

// A VersionError is a fact that this version of the library does not understand.
type VersionError struct {
	Version int
	Kind    string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("spawn: journal holds a fact of version %d, kind %q; this library knows version %d", e.Version, e.Kind, Version)
}

// wire is a Fact as JSON. AppendJSON writes it by hand, in the order of its fields.
type wire struct {
	V      int            `json:"v"`
	Kind   string         `json:"kind"`
	At     int64          `json:"at"`
	Run    session.Key    `json:"run,omitzero"`
	State  State          `json:"state,omitempty"`
	Cause  Cause          `json:"cause,omitempty"`
	Class  Class          `json:"class,omitempty"`
	Flags  Flags          `json:"flags,omitempty"`
	N      uint32         `json:"n,omitempty"`
	Ord    uint32         `json:"ord,omitempty"`
	Until  int64          `json:"until,omitempty"`
	Num    uint64         `json:"num,omitempty"`
	ID     string         `json:"id,omitempty"`
	Text   Text           `json:"text,omitempty"`
	From   session.Key    `json:"from,omitzero"`
	Budget *Budget        `json:"budget,omitempty"`
	Spec   *Spec          `json:"spec,omitempty"`
	Answer *Answer        `json:"answer,omitempty"`
	Join   *Join          `json:"join,omitempty"`
	Route  *session.Route `json:"route,omitempty"`
	Image  *Image         `json:"image,omitempty"`
}

// AppendJSON implements session.Payload.
func (f *Fact) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"v":1,"kind":"`...)
	b = append(b, f.Kind.String()...)
	b = append(b, `","at":`...)
	b = strconv.AppendInt(b, f.At, 10)
	b = appendText(b, "run", f.Run.String())
	b = appendUint(b, "state", uint64(f.State))
	b = appendUint(b, "cause", uint64(f.Cause))
	b = appendUint(b, "class", uint64(f.Class))
	b = appendUint(b, "flags", uint64(f.Flags))
	b = appendUint(b, "n", uint64(f.N))
	b = appendUint(b, "ord", uint64(f.Ord))
	if f.Until != 0 {
		b = strconv.AppendInt(append(b, `,"until":`...), f.Until, 10)
	}
	b = appendUint(b, "num", f.Num)
	b = appendText(b, "id", f.ID)
	b = appendText(b, "text", string(f.Text))
	b = appendText(b, "from", f.From.String())
	var err error
	if f.Budget != (Budget{}) {
		b, err = appendValue(b, err, "budget", true, f.Budget)
	}
	b, err = appendValue(b, err, "spec", f.Spec != nil, f.Spec)
	b, err = appendValue(b, err, "answer", f.Answer != nil, f.Answer)
	b, err = appendValue(b, err, "join", f.Join != nil, f.Join)
	b, err = appendValue(b, err, "route", f.Route != nil, f.Route)
	b, err = appendValue(b, err, "image", f.Image != nil, f.Image)
	return append(b, '}'), err
}

func appendUint(b []byte, name string, v uint64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendUint(appendName(b, name), v, 10)
}

func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	b = appendName(b, name)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := Text(s).MarshalJSON() // it never fails
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendValue(b []byte, err error, name string, set bool, v any) ([]byte, error) {
	if err != nil || !set {
		return b, err
	}
	data, err := json.Marshal(v)
	return append(appendName(b, name), data...), err
}

// DecodeFact reads what AppendJSON wrote.
func DecodeFact(data []byte) (*Fact, error) {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("spawn: journal holds what is no fact: %w", err)
	}
	kind := kindOf(w.Kind)
	if w.V != Version || kind == 0 {
		return nil, &VersionError{w.V, w.Kind}
	}
	f := &Fact{
		Kind: kind, State: w.State, Cause: w.Cause, Class: w.Class, Flags: w.Flags, N: w.N, Ord: w.Ord, At: w.At, Until: w.Until,
		Num: w.Num, Run: w.Run, ID: w.ID, Text: w.Text, From: w.From, Spec: w.Spec, Answer: w.Answer, Join: w.Join, Route: w.Route,
		Image: w.Image,
	}
	if w.Budget != nil {
		f.Budget = *w.Budget
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// check refuses a fact that lacks what its kind must have.
func (f *Fact) check() error {
	switch {
	case f.Kind == Admitted && (f.Spec == nil || f.Spec.Grant == nil), f.Kind == Snapshot && f.Image == nil,
		f.Kind == TurnEnded && f.Flags&FlagReply != 0 && f.Answer == nil,
		f.State >= states, f.Cause >= causes, f.Class >= classes:
		return &CorruptError{f.Kind, f.Run, "it lacks what its kind must have"}
	}
	return nil
}

func kindOf(name string) Kind {
	for k := Opened; k < kinds; k++ {
		if kindNames[k] == name {
			return k
		}
	}
	return 0
}

// FactOf returns the fact that a journal entry holds, whether the journal kept it as it was or wrote it down.
func FactOf(p session.Payload) (*Fact, error) {
	switch p := p.(type) {
	case *Fact:
		return p, nil
	case session.Raw:
		return DecodeFact(p)
	}
	return nil, fmt.Errorf("spawn: journal holds a %T", p)
}

// Text is a string that survives JSON byte for byte: what is not UTF-8 is written as base64.
type Text string

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
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
