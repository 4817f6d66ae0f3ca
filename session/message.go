package session

import (
	"encoding/json"
	"math"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// A MessageRole says who speaks in a message. A MessageRole that this version does not know is kept
// as it was read.
type MessageRole string

// The roles that this version knows.
const (
	// MessageUser is a message of a person, or an internal one to the session: see
	// Message.Internal.
	MessageUser MessageRole = "user"
	// MessageAssistant is a message of the model.
	MessageAssistant MessageRole = "assistant"
	// MessageTool is the result of a tool call.
	MessageTool MessageRole = "tool"
	// MessageNote is a remark of Offshoot itself for readers of the transcript: see [Fence].
	MessageNote MessageRole = "note"
)

// A Message is one line of a transcript. It is passed by value, and its slices are shared: neither
// the sender nor the receiver may change what they hold.
type Message struct {
	ID         string          // given by the transport, to recognise the message if it comes again
	Role       MessageRole     // the speaker
	Text       string          // what is said, or the result of a call; stored as UTF-8
	ToolCalls  []ToolCall      // the tool calls that an assistant requests
	ToolCallID string          // ID of the tool call that the message is the result of
	Failed     bool            // the tool call failed, and Text says how
	Internal   bool            // a completion or a steer; false for a person and a task
	Time       time.Time       // when it was said
	Model      string          // the model that said it
	Usage      Usage           // what the model call consumed
	Raw        json.RawMessage // the provider's own form, kept byte for byte
	From       Sender          // the person who said it, in a chat of several
	Parts      []Part          // what it has beside its text
	Discard    Pos             // of a MessageNote: see [Fence]
	Compacted  Compacted       // of a MessageNote: see [Compaction]

	// Ord is the ordinal of the input that the message is made of. It counts from 1 in the session,
	// also over transcripts. 0: it is not made of one, or an earlier version wrote it.
	Ord int
	// Synthetic says that Offshoot wrote the line of its own accord: that a wait is over, that an
	// answer was empty, or the result of a call that has none.
	Synthetic bool
	// Copied says that the message was said in the conversation of the session's requester, with
	// which a sub-agent began. It has no Ord and no Usage: those are of the session that it is
	// copied from.
	Copied bool

	// Whole names the message itself, as AppendJSON wrote it, where it was too long for a line. The
	// line then has what is short of it, and the beginning of its Text. Zero: the line is whole.
	Whole File

	unknown string // the members that a newer version wrote, as JSON without the braces
}

// IsRunners reports whether the Runner of a turn of the session wrote the message, and neither the
// session for what it was sent, nor Offshoot, and it was not copied from another session. Of lines
// that an earlier version wrote, only those of the assistant are known to be the Runner's.
func (m Message) IsRunners() bool {
	return m.Ord == 0 && !m.Synthetic && !m.Copied && m.Role != MessageNote
}

// A ToolCall is the request of a model to call a tool.
type ToolCall struct {
	ID   string          // unique within a turn, as far as the provider sees to it
	Name string          // name of the tool
	Args json.RawMessage // as the model wrote them, kept byte for byte; they may not be JSON

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

// Add returns the sum of u and v, field by field. A sum that is out of range is the largest or
// smallest number there is, and a cost that is not a number counts as zero. Members of the JSON
// form that this version does not know are not in the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: sat.Add(u.Input, v.Input), Output: sat.Add(u.Output, v.Output),
		CacheRead:  sat.Add(u.CacheRead, v.CacheRead),
		CacheWrite: sat.Add(u.CacheWrite, v.CacheWrite),
		Cost:       sat.AddFloat(u.Cost, v.Cost),
	}
}

// Total returns the sum of all tokens, those of caches included, or the largest or smallest int64
// if that is out of range. A budget of tokens counts Input and Output alone.
func (u Usage) Total() int64 { return sat.Sum(u.Input, u.Output, u.CacheRead, u.CacheWrite) }

// IsZero reports whether u is the zero Usage.
func (u Usage) IsZero() bool { return u == Usage{} }

// Fence returns a note by which a writer discards lines of a transcript. The lines between the
// position after and the note itself are what an interrupted turn left behind. They are not part of
// the conversation, and [Committed] leaves them out.
func Fence(after Pos, at time.Time) Message {
	return Message{Role: MessageNote, Discard: after, Time: at}
}

// A Compacted says of a note of [Compaction] which lines it stands for. The zero Compacted is that
// of every other message.
type Compacted struct {
	// Through is the position of the last line that the note stands for.
	Through Pos
	// Messages is how many messages are left out, those included that an earlier compaction has
	// left out.
	Messages int
	// Omitted is how many of the Messages the summary does not tell of.
	Omitted int

	unknown string // as in Message
}

// IsZero reports whether c is the zero Compacted.
func (c Compacted) IsZero() bool { return c == Compacted{} }

// Compaction returns a note that stands for the lines of a conversation up to a position: what a
// model is shown begins with the summary, see [View]. The lines themselves stay, and [Committed]
// yields them. Without a summary it says only how many messages are left out. The id is a new one,
// see [NewID]: it is in the lines that fence the summary for a model.
//
// A version that does not know compactions reads it as a [Fence] that discards nothing.
func Compaction(id, summary string, of Compacted, at time.Time) Message {
	return Message{
		ID: id, Role: MessageNote, Text: summary, Compacted: of, Time: at,
		Discard: math.MaxUint64,
	}
}

// IsCompaction reports whether m is a note of [Compaction].
func (m Message) IsCompaction() bool { return m.Role == MessageNote && !m.Compacted.IsZero() }
