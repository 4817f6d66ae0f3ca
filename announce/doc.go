// Package announce turns the end of a run into a text that reaches the requester of the run: the
// model of a session, or a person.
//
//	spawn.Delivery     hands over, each under a Key of its own
//	  |
//	  +- Completion --NewEvent--> Event --ForModel-->  fenced text for the model of the requester
//	  |  (frozen when the           |
//	  |   run ended)                +----ForPerson-->  the result alone, for a person
//	  |
//	  +- Reply        what a session run by Offshoot says to people; its Text has passed Visible
//
//	Delivery --Dedupe.Once--> your function, once for each Key
//
//	what a model says --Visible--> text for a person, or silence
//	                  +-Decide---> DecisionSpeak, DecisionSilent or DecisionDefer
//	                  +-ReadTags-> the message that it replies to, and whether it is to be spoken
//	what it says so far --Stream-> what people may see of it now
//
// The package has pure functions and plain values; a [Stream] and a [Dedupe] alone have a state,
// and a Dedupe alone reads a clock and a store. It has no goroutine. Equal input gives equal text,
// and all functions are safe for concurrent use.
//
// Most programs need [NewEvent], [Event.ForModel], [Event.ForPerson], [Visible] and [ErrBusy].
//
// Begin with event.go: an [Event] and how [NewEvent] makes it. Then read render.go for the text
// that a model gets, and silence.go for [Visible], [Decide] and the silent tokens. sanitize.go
// and lexer.go clean what models write; lexer.go begins with a map of what it recognises, in
// which order. [Redact] masks credentials. Package announcetest tests a receiver of deliveries.
//
// # Events
//
// An [Event] says which run ended, how, with what result, and what it took. How a run ended is
// what the runtime says; what the child writes does not change it:
//
//	status        word      phrase
//	ok            success   completed successfully
//	failed        error     failed: reason
//	incomplete    error     failed: reason
//	timed_out     timeout   timed out
//	cancelled     error     failed: stopped
//	interrupted   unknown   interrupted: reason
//
// A child's text is data from a party that the requester does not trust. [Event.ForModel] puts
// every line of the result and every file behind a bar, and every other field of the child on one
// line. What stands without a bar is the runtime's, such as the line in a long result. A fence
// stands around all of it. Its nonce was drawn after the child had ended, so the child cannot end
// the event, begin another one or speak as the runtime.
//
// The result of the run itself is never changed: Run.Result.Text of the completion holds what the
// Runner returned, byte for byte. A model is shown the two ends of a result of more than 20,000
// characters, with the SHA-256 of the whole between them.
//
// # Silence
//
// A model chooses to say nothing by answering [NoReply], [AnnounceSkip] or, where a heartbeat asks
// whether something needs attention, [HeartbeatOK]. These words count only
// where a model's text comes in. From there on, silence is a [Decision]. [Fallback] selects what
// to announce of a run that returned nothing.
//
// # Texts for people
//
// [Sanitize] removes what models write around their answers: thoughts, memory blocks, tool calls
// and results, control tokens, copies of events. [Redact] masks credentials. Both take time
// linear in the text, on every input. A [Stream] does the same to a text that comes in pieces, and
// shows each part of it as soon as what follows cannot change it.
//
// # Delivery
//
// What leaves a tree arrives at least once, always under the same key. A receiver acts on a key
// that is new and returns nil for every other. It returns [ErrBusy] when the requester cannot
// take the delivery now. A [Dedupe] before a function that knows no keys remembers them for it,
// over restarts, and says what is left. Package announcetest checks a receiver against these rules,
// and has a receiver that records and a transport that fails on purpose. The page docs/delivery.md
// has the whole way.
package announce
