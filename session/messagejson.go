package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// The JSON form of a message is one line. Members with the zero value are left out. Raw, and the
// Args of a tool call, are written as they are if they are JSON on one line. Otherwise they are
// written in base64, as raw64 and args64, so that no byte is lost. Members that this version does
// not know are kept and written again.

// A wireMessage is the form of a message for encoding/json to decode into.
type wireMessage struct {
	ID         string          `json:"id"`
	Role       MessageRole     `json:"role"`
	Text       string          `json:"text"`
	ToolCalls  []ToolCall      `json:"toolCalls"`
	ToolCallID string          `json:"toolCallId"`
	Failed     bool            `json:"failed"`
	Internal   bool            `json:"internal"`
	Time       time.Time       `json:"time"`
	Model      string          `json:"model"`
	Usage      Usage           `json:"usage"`
	Raw        json.RawMessage `json:"raw"`
	Raw64      []byte          `json:"raw64"`
	From       Sender          `json:"from"`
	Parts      []Part          `json:"parts"`
	Whole      File            `json:"whole"`
	Ord        int             `json:"ord"`
	Synthetic  bool            `json:"synthetic"`
	Copied     bool            `json:"copied"`
	Discard    Pos             `json:"discard"`
	Compacted  Compacted       `json:"compaction"`
}

var messageMembers = []string{
	"id", "role", "text", "toolCalls", "toolCallId", "failed", "internal", "time", "model", "usage",
	"raw", "raw64", "from", "parts", "whole", "ord", "synthetic", "copied", "discard",
	"compaction",
}

// MarshalJSON encodes m on one line. See [Message.AppendJSON] for its errors.
//
// Package encoding/json compacts and escapes what a MarshalJSON returns. If a Message is encoded as
// a part of a greater value, its Raw keeps its meaning but may not keep its bytes. AppendJSON keeps
// them.
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil) }

// Validate returns an error that wraps [ErrInvalidLine] if m has no JSON form: if its Time is
// outside of the years 0 to 9999 or its zone is a day or more from UTC, if its Cost is not finite,
// or if [Part.Validate] refuses one of its Parts: then the error is a *[PartError], too. Every
// implementation of [Transcripts] that does not encode a message calls it in Append.
func (m Message) Validate() error {
	if y := m.Time.Year(); m.Time.Location() != time.UTC || y < 0 || y > 9999 || !m.Usage.IsZero() {
		if err := m.validateFigures(); err != nil {
			return invalidLine(err)
		}
	}
	return invalidLine(ValidateParts(m.Parts, Part.Validate))
}

// validateFigures encodes what Validate cannot tell at a look, which takes an allocation.
func (m *Message) validateFigures() error {
	o := object{b: make([]byte, 0, 64)} // has room for a time
	err := o.time("time", m.Time)
	if err == nil {
		_, err = m.Usage.append(o.b)
	}
	return err
}

// invalidLine returns the error of a message that cannot be encoded because of err, which may be
// nil.
func invalidLine(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalidLine, err)
	}
	return err
}

// AppendJSON appends m to b on one line, without a newline at its end. It returns b and the error
// of [Message.Validate] if there is one. The method makes a Message a [Payload].
func (m Message) AppendJSON(b []byte) ([]byte, error) {
	o := object{b: append(b, '{')}
	o.text("id", m.ID)
	o.text("role", string(m.Role))
	o.text("text", m.Text)
	if len(m.ToolCalls) > 0 {
		o.member("toolCalls")
		o.b = append(o.b, '[')
		for i, c := range m.ToolCalls {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = c.append(o.b)
		}
		o.b = append(o.b, ']')
	}
	o.text("toolCallId", m.ToolCallID)
	o.flag("failed", m.Failed)
	o.flag("internal", m.Internal)
	if err := o.time("time", m.Time); err != nil {
		return b, invalidLine(err)
	}
	o.text("model", m.Model)
	if !m.Usage.IsZero() {
		o.member("usage")
		var err error
		if o.b, err = m.Usage.append(o.b); err != nil {
			return b, invalidLine(err)
		}
	}
	o.raw("raw", "raw64", m.Raw)
	if err := o.parts(m); err != nil {
		return b, invalidLine(err)
	}
	o.file("whole", m.Whole)
	o.number("ord", int64(m.Ord))
	o.flag("synthetic", m.Synthetic)
	o.flag("copied", m.Copied)
	if m.Role == MessageNote || m.Discard != 0 {
		o.member("discard")
		o.b = strconv.AppendUint(o.b, uint64(m.Discard), 10)
	}
	if !m.Compacted.IsZero() {
		o.member("compaction")
		o.b = m.Compacted.append(o.b)
	}
	return o.end(m.unknown), nil
}

// UnmarshalJSON sets m to the message in data.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w wireMessage
	unknown, err := readObject(data, &w, messageMembers)
	if err != nil {
		return fmt.Errorf("session: message: %w", err)
	}
	*m = Message{
		ID: w.ID, Role: w.Role, Text: w.Text, ToolCalls: w.ToolCalls, ToolCallID: w.ToolCallID,
		Failed: w.Failed, Internal: w.Internal, Time: w.Time, Model: w.Model, Usage: w.Usage,
		Raw: either(w.Raw, w.Raw64), From: w.From, Parts: w.Parts, Whole: w.Whole,
		Ord: w.Ord, Synthetic: w.Synthetic, Copied: w.Copied, Discard: w.Discard,
		Compacted: w.Compacted, unknown: unknown,
	}
	return nil
}

// A wireToolCall is the form of a tool call for encoding/json to decode into.
type wireToolCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Args64 []byte          `json:"args64"`
}

var toolCallMembers = []string{"id", "name", "args", "args64"}

// MarshalJSON encodes c on one line. As with [Message.MarshalJSON], encoding/json may rewrite the
// bytes of Args.
func (c ToolCall) MarshalJSON() ([]byte, error) { return c.append(nil), nil }

func (c ToolCall) append(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.text("id", c.ID)
	o.text("name", c.Name)
	o.raw("args", "args64", c.Args)
	return o.end(c.unknown)
}

// UnmarshalJSON sets c to the tool call in data.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var w wireToolCall
	unknown, err := readObject(data, &w, toolCallMembers)
	if err != nil {
		return fmt.Errorf("session: tool call: %w", err)
	}
	*c = ToolCall{ID: w.ID, Name: w.Name, Args: either(w.Args, w.Args64), unknown: unknown}
	return nil
}

// A wireUsage is the form of a usage for encoding/json to decode into.
type wireUsage struct {
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	CacheRead  int64   `json:"cacheRead"`
	CacheWrite int64   `json:"cacheWrite"`
	Cost       float64 `json:"cost"`
}

var usageMembers = []string{"input", "output", "cacheRead", "cacheWrite", "cost"}

// MarshalJSON encodes u on one line. A Cost that is not finite is an error.
func (u Usage) MarshalJSON() ([]byte, error) { return u.append(nil) }

func (u Usage) append(b []byte) ([]byte, error) {
	o := object{b: append(b, '{')}
	o.number("input", u.Input)
	o.number("output", u.Output)
	o.number("cacheRead", u.CacheRead)
	o.number("cacheWrite", u.CacheWrite)
	if u.Cost != 0 {
		cost, err := json.Marshal(u.Cost)
		if err != nil {
			return b, fmt.Errorf("session: usage: cost: %w", err)
		}
		o.member("cost")
		o.b = append(o.b, cost...)
	}
	return o.end(u.unknown), nil
}

// UnmarshalJSON sets u to the usage in data.
func (u *Usage) UnmarshalJSON(data []byte) error {
	var w wireUsage
	unknown, err := readObject(data, &w, usageMembers)
	if err != nil {
		return fmt.Errorf("session: usage: %w", err)
	}
	*u = Usage{
		Input: w.Input, Output: w.Output, CacheRead: w.CacheRead, CacheWrite: w.CacheWrite,
		Cost: w.Cost, unknown: unknown,
	}
	return nil
}

// A wireCompacted is the form of a Compacted for encoding/json to decode into.
type wireCompacted struct {
	Through  Pos `json:"through"`
	Messages int `json:"messages"`
	Omitted  int `json:"omitted"`
}

var compactedMembers = []string{"through", "messages", "omitted"}

// MarshalJSON encodes c on one line.
func (c Compacted) MarshalJSON() ([]byte, error) { return c.append(nil), nil }

func (c Compacted) append(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.member("through")
	o.b = strconv.AppendUint(o.b, uint64(c.Through), 10)
	o.number("messages", int64(c.Messages))
	o.number("omitted", int64(c.Omitted))
	return o.end(c.unknown)
}

// UnmarshalJSON sets c to the value in data.
func (c *Compacted) UnmarshalJSON(data []byte) error {
	var w wireCompacted
	unknown, err := readObject(data, &w, compactedMembers)
	if err != nil {
		return fmt.Errorf("session: compaction: %w", err)
	}
	*c = Compacted{Through: w.Through, Messages: w.Messages, Omitted: w.Omitted, unknown: unknown}
	return nil
}

// either returns the bytes of a member that was written as it is or in base64.
func either(plain json.RawMessage, encoded []byte) json.RawMessage {
	if encoded != nil {
		return encoded
	}
	return plain
}

// readObject decodes data into the struct that to points at. It returns the members whose names are
// not in known, as JSON without the braces. Most objects have none: the strict decoder then
// succeeds, and data is read once.
func readObject(data []byte, to any, known []string) (unknown string, err error) {
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if strict.Decode(to) == nil {
		return "", nil
	}
	if err := json.Unmarshal(data, to); err != nil {
		return "", err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return "", err
	}
	for _, n := range known {
		delete(members, n)
	}
	names := make([]string, 0, len(members))
	for n := range members {
		names = append(names, n)
	}
	slices.Sort(names)
	var rest object
	for _, n := range names {
		rest.member(n)
		var line bytes.Buffer
		if err := json.Compact(&line, members[n]); err != nil {
			return "", err
		}
		rest.b = append(rest.b, line.Bytes()...)
	}
	return string(rest.b), nil
}

// An object is a JSON object that is being written.
type object struct {
	b    []byte
	some bool // whether a member has been written
}

// member writes the name of the next member.
func (o *object) member(name string) {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
	o.b = append(appendString(o.b, name), ':')
}

// text writes a member with a string, unless it is empty.
func (o *object) text(name, s string) {
	if s != "" {
		o.member(name)
		o.b = appendString(o.b, s)
	}
}

// number writes a member with a number, unless it is 0.
func (o *object) number(name string, n int64) {
	if n != 0 {
		o.member(name)
		o.b = strconv.AppendInt(o.b, n, 10)
	}
}

// flag writes a member that is true, unless on is false.
func (o *object) flag(name string, on bool) {
	if on {
		o.member(name)
		o.b = append(o.b, "true"...)
	}
}

// time writes a member with a time in RFC 3339, unless it is zero.
func (o *object) time(name string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	o.member(name)
	o.b = append(o.b, '"')
	b, err := t.AppendText(o.b)
	if err != nil {
		return err
	}
	o.b = append(b, '"')
	return nil
}

// parts writes who says a message and what it has beside its text.
func (o *object) parts(m Message) error {
	if !m.From.IsZero() {
		o.member("from")
		from := object{b: append(o.b, '{')}
		from.text("id", m.From.ID)
		from.text("name", m.From.Name)
		o.b = from.end("")
	}
	if len(m.Parts) == 0 {
		return nil
	}
	if err := ValidateParts(m.Parts, Part.Validate); err != nil {
		return err
	}
	o.member("parts")
	o.b = append(o.b, '[')
	for i, p := range m.Parts {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = p.append(o.b)
	}
	o.b = append(o.b, ']')
	return nil
}

// file writes a member that names bytes, unless it is zero.
func (o *object) file(name string, f File) {
	if f.IsZero() {
		return
	}
	o.member(name)
	file := object{b: append(o.b, '{')}
	file.text("hash", f.Hash)
	file.number("size", f.Size)
	o.b = file.end("")
}

// raw writes r under name if r can stand in a line of JSON without a change, else under name64 in
// base64. It leaves out an r that is nil.
func (o *object) raw(name, name64 string, r json.RawMessage) {
	switch {
	case r == nil:
	case json.Valid(r) && len(bytes.TrimSpace(r)) == len(r) && !bytes.ContainsAny(r, "\r\n") &&
		utf8.Valid(r) && string(r) != "null":
		o.member(name)
		o.b = append(o.b, r...)
	default:
		o.member(name64)
		text, _ := json.Marshal([]byte(r)) // a []byte always encodes
		o.b = append(o.b, text...)
	}
}

// end writes the unknown members and the closing brace.
func (o *object) end(unknown string) []byte {
	if unknown != "" {
		if o.some {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, unknown...)
	}
	return append(o.b, '}')
}

// appendString appends s as a JSON string. As in encoding/json, bytes that are not UTF-8 become
// U+FFFD, and U+2028 and U+2029 are escaped. Unlike there, < > and & are not escaped.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[start:i]...), `\u202`...)
			b = append(b, hex[r&15])
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}
