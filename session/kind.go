package session

import "fmt"

// A Kind is what a key says about the session that it names. The zero Kind is that of the zero Key.
//
// A Kind is read from the position of the words in a key, never from a substring, so no peer, id or name can change it.
type Kind uint8

// The kinds, with the form of the keys of each.
const (
	KindInvalid  Kind = iota // the zero Key and the reserved roots: no session
	KindMain                 // agent:<agent>:main
	KindThread               // agent:<agent>:main:thread|topic:<id>, a thread of the main session
	KindNamed                // agent:<agent>:<name>, nobody's chat: a batch job, a test
	KindDirect               // agent:<agent>:[<channel>:[<account>:]]direct:<peer>
	KindGroup                // agent:<agent>:<channel>:group:<peer>
	KindChannel              // agent:<agent>:<channel>:channel:<peer>
	KindSubagent             // agent:<agent>:subagent|spawn:<id>, once for each level
	KindCron                 // agent:<agent>:cron:<job>[:run:<run>]
	KindACP                  // agent:<agent>:acp:<id>, an external harness that speaks the Agent Client Protocol
	KindHook                 // agent:<agent>:hook:<id>[:<id>...]
	KindGlobal               // global, one session for all agents and chats
)

var kindNames = [...]string{
	KindInvalid: "invalid", KindMain: "main", KindThread: "thread", KindNamed: "named", KindDirect: "direct", KindGroup: "group",
	KindChannel: "channel", KindSubagent: "subagent", KindCron: "cron", KindACP: "acp", KindHook: "hook", KindGlobal: "global",
}

// String returns the word for k, such as "subagent".
func (k Kind) String() string { return name(kindNames[:], "Kind", k) }

// MarshalText returns the word for k. A value that is no Kind is an error.
func (k Kind) MarshalText() ([]byte, error) { return nameText(kindNames[:], "kind", k) }

// UnmarshalText sets k to the Kind that text is the word for.
func (k *Kind) UnmarshalText(text []byte) error { return unname(kindNames[:], "kind", text, k) }

// name returns the word for v, or "Type(v)" for a value that has none.
func name[T ~uint8](names []string, typ string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}

// nameText is name for MarshalText: a value without a word is an error.
func nameText[T ~uint8](names []string, what string, v T) ([]byte, error) {
	if int(v) < len(names) {
		return []byte(names[v]), nil
	}
	return nil, fmt.Errorf("session: %d is no %s", uint8(v), what)
}

// unname sets *v to the value whose word is text.
func unname[T ~uint8](names []string, what string, text []byte, v *T) error {
	for i, n := range names {
		if n == string(text) {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("session: unknown %s %q, want one of %q", what, text, names)
}
