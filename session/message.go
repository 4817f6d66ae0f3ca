package session

import (
	"encoding/json"
	"time"
)

// A MessageRole is whose message it is. A speaker that this version does not know is kept as it was read.
type MessageRole string

// The speakers that this version knows.
const (
	MessageUser      MessageRole = "user"      // a person, or an internal message to the session: see Message.Internal
	MessageAssistant MessageRole = "assistant" // the model
	MessageTool      MessageRole = "tool"      // the result of a tool call
	MessageNote      MessageRole = "note"      // Offshoot itself, for a reader of the transcript: see [Fence]
)

// A Message is one line of a transcript. It is a value: whoever passes one on does not change what its slices hold afterwards.
type Message struct {
	ID         string          // the transport's, to recognise the message when it comes again
	Role       MessageRole     // who says it
	Text       string          // what is said, or the result of a tool call; bytes that are not UTF-8 do not survive storage
	ToolCalls  []ToolCall      // what an assistant asks to be called
	ToolCallID string          // which call the message is the result of
	Failed     bool            // the tool call failed, and Text says how
	Internal   bool            // a completion or a steer, not a person
	Time       time.Time       // when it was said
	Model      string          // which model said it
	Usage      Usage           // what saying it took
	Raw        json.RawMessage // the provider's own form, kept byte for byte
	Discard    Pos             // for a Note, see [Fence]

	unknown string // the members that a newer version wrote, as JSON without the braces
}

// A ToolCall is a model's request to call a tool.
type ToolCall struct {
	ID   string          // unique within a turn, if the provider is good
	Name string          // the tool's
	Args json.RawMessage // as the model wrote them, kept byte for byte, and so perhaps no JSON

	unknown string
}

// A Usage is what one model call consumed, or several together. The zero Usage says that nothing
// was consumed, or that nothing is known. It is a value, and comparable.
type Usage struct {
	Input      int64   // tokens of the prompt, without those read from a cache
	Output     int64   // tokens of the answer
	CacheRead  int64   // tokens of the prompt that a cache held
	CacheWrite int64   // tokens of the prompt that went into a cache
	Cost       float64 // US dollars; finite, since JSON has no other

	unknown string // as in Message
}

// Add returns the sum of u and v, field by field. Members of the JSON form that this version does
// not know are not in it.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Cost: u.Cost + v.Cost,
	}
}

// Total returns the sum of all tokens, those of caches included. A budget of tokens counts Input
// and Output alone.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// IsZero reports whether nothing was consumed, or nothing is known of it.
func (u Usage) IsZero() bool { return u == Usage{} }

// Fence returns the line that a writer puts into a transcript to say that everything between the position after and the fence itself
// is what an interrupted turn left, and is no part of the conversation. See [Committed].
func Fence(after Pos, at time.Time) Message {
	return Message{Role: MessageNote, Discard: after, Time: at}
}
