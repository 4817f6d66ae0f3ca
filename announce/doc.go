// Package announce turns the end of a run into something that reaches whoever asked for it.
//
//	spawn.Delivery     hands over, each under a Key of its own
//	  |
//	  +- Completion --NewEvent--> Event --ForModel-->  fenced text for the model of the requester
//	  |  (frozen when the           |
//	  |   run ended)                +----ForPerson-->  the result alone, for a person
//	  |
//	  +- Reply        what a session run by Offshoot says to people; its Text has passed Visible
//
//	what a model says --Visible--> text for a person, or silence
//	                  +-Decide---> Speak, Silent or Defer
//
// Everything here is a pure function or a plain value: no clock, no goroutine, no state. Equal input gives equal text, and
// all functions may be called at once.
//
// # Events
//
// An [Event] says who ended, how, with what result and what it took. How comes from the runtime alone, whatever the child
// writes:
//
//	status        word      phrase
//	ok            success   completed successfully
//	failed        error     failed: reason
//	incomplete    error     failed: reason
//	timed_out     timeout   timed out
//	cancelled     error     failed: stopped
//	interrupted   unknown   unknown
//
// A child's text is data that another agent wrote. [Event.ForModel] puts every line of its result
// behind a bar and whatever else it says on one line, inside a fence with a nonce that was drawn
// after the child had ended, so nothing that a child writes can end the event, begin another one or
// speak as the runtime. The result itself is never changed or cut: Run.Result.Text of the
// completion holds what the Runner returned, byte for byte.
//
// # Silence
//
// A model may say nothing by answering [NoReply] or [AnnounceSkip]. These words are a way in: behind it silence is a
// [Decision]. [Fallback] finds what to announce of a run that returned nothing.
//
// # Texts for people
//
// [Sanitize] removes what models write around their answers: thoughts, memory blocks, tool calls and results, control
// tokens, copies of events. [Redact] masks credentials. Both take time linear in the text, on every input.
// A map of what is recognised, in which order, stands at the beginning of lexer.go.
//
// # Delivery
//
// What leaves a tree arrives at least once, always under the same key. Act on keys that are new and return nil for the
// others; return [ErrBusy] when the requester cannot take it now. Package announcetest checks a receiver against that.
package announce
