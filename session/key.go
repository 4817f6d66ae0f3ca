package session

import (
	"iter"
	"strings"
)

// MaxKeyLen is the greatest length of a key in its canonical form, in bytes.
const MaxKeyLen = 1024

// A Key names a session. It is opaque and comparable. A Key that is not zero was made by [Parse],
// [ParseRoot] or one of the constructors and is in canonical form, so two keys name the same
// session exactly if they are equal. The zero Key does not name a session, and its methods return
// zero values.
//
// A Key tells which agent runs the session, what kind of session it is, and how deep it claims to
// be. It does not tell which session started it or to which tree it belongs, since the child of
// another agent's session carries the id of its own agent. That is recorded in a [Lineage].
//
// Only Display, Thread, Topic, Child, MarshalText and UnmarshalText allocate memory.
type Key struct{ s string }

// String returns the canonical form of k. It is "" for the zero Key.
func (k Key) String() string { return k.s }

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.s == "" }

// IsValid reports whether k names a session. The zero Key and the reserved roots, such as
// [BindingsRoot], do not.
func (k Key) IsValid() bool { return k.Kind() != KindInvalid }

// Agent returns the id of the agent that runs the session. It is "" for the global session, which
// does not belong to one agent.
func (k Key) Agent() string {
	agent, _ := k.cut()
	return agent
}

// Kind returns the kind of session that k names.
func (k Key) Kind() Kind {
	_, body := k.cut()
	first, rest, more := strings.Cut(body, ":")
	switch first {
	case "":
		if k.s == wordGlobal {
			return KindGlobal
		}
		return KindInvalid
	case wordMain:
		if more {
			return KindThread
		}
		return KindMain
	case wordSubagent, wordSpawn:
		return KindSubagent
	case wordCron:
		return KindCron
	case wordACP:
		return KindACP
	case wordHook:
		return KindHook
	case wordDirect:
		return KindDirect
	}
	if !more {
		return KindNamed
	}
	second, _, _ := strings.Cut(rest, ":")
	switch second {
	case wordThread, wordTopic:
		return KindNamed
	case wordGroup:
		return KindGroup
	case wordChannel:
		return KindChannel
	}
	return KindDirect
}

// IsMain reports whether k is the main session of its agent. A thread of the main session is not.
func (k Key) IsMain() bool { return k.Kind() == KindMain }

// IsSubagent reports whether k names a sub-agent, with the word subagent or spawn.
func (k Key) IsSubagent() bool { return k.Kind() == KindSubagent }

// Depth returns the number of sub-agent ids in k, which is 0 for a key that is not a sub-agent's.
// The depth of the session is at least that. It is greater for a session that was given a flat key
// below another sub-agent, and only its [Lineage] records it.
func (k Key) Depth() int {
	if !k.IsSubagent() {
		return 0
	}
	_, body := k.cut()
	// The grammar allows the two words only before the id of a sub-agent.
	return 1 + strings.Count(body, ":"+wordSubagent+":") + strings.Count(body, ":"+wordSpawn+":")
}

// Channel returns the channel of a chat key, such as "telegram". It is "" for other keys.
func (k Key) Channel() string {
	c := k.chat()
	return c.channel
}

// Account returns the account of the bot that the key of a direct chat names, "" if it names none.
func (k Key) Account() string {
	c := k.chat()
	return c.account
}

// Peer returns the person, group or channel of a chat key, as the channel spells it. It is "" for
// other keys.
func (k Key) Peer() string {
	c := k.chat()
	return c.peer
}

// ThreadID returns the id of the thread or topic that k ends with, "" if it does not end with one.
func (k Key) ThreadID() string {
	_, id, _ := k.CutThread()
	return id
}

// CutThread splits k at its last thread or topic. It returns the key before it, the id of the
// thread, and true. If k does not end with a thread, it returns k, "" and false. From the key of a
// thread inside a thread it removes one level. It is for transports, which find the chat of a
// thread by it.
func (k Key) CutThread() (chat Key, id string, ok bool) {
	_, body := k.cut()
	at, word := strings.LastIndex(body, ":"+wordThread+":"), wordThread
	if topic := strings.LastIndex(body, ":"+wordTopic+":"); topic > at {
		at, word = topic, wordTopic
	}
	if at < 0 {
		return k, "", false
	}
	start := len(k.s) - len(body) + at
	return Key{k.s[:start]}, k.s[start+len(word)+2:], true
}

// ID returns the last id in k, which depends on its kind:
//
//   - of a sub-agent its own id, without the ids above it
//   - of a cron job or a run of one the id of the job; see [Key.CronRun] for that of the run
//   - of an external harness its id
//   - of a hook its whole id, colons included
//   - of a main or named session, and of a thread of one, the name of the session
//   - of a chat and of the global session "": a chat has a [Key.Peer]
func (k Key) ID() string {
	body := k.unthreaded()
	first, rest, _ := strings.Cut(body, ":")
	switch k.Kind() {
	case KindMain, KindThread, KindNamed:
		return first
	case KindSubagent:
		return rest[strings.LastIndexByte(rest, ':')+1:]
	case KindCron:
		job, _, _ := strings.Cut(rest, ":")
		return job
	case KindACP, KindHook:
		return rest
	default: // a chat, the global session, a reserved root or the zero Key
		return ""
	}
}

// CronRun returns the id of the run in the key of one run of a cron job. It is "" for other keys.
func (k Key) CronRun() string {
	if k.Kind() != KindCron {
		return ""
	}
	_, run, _ := strings.Cut(k.unthreaded(), ":"+wordRun+":")
	return run
}

// IDs yields the ids in the key of a sub-agent, the outermost first. There are [Key.Depth] of them.
// For other keys it yields nothing.
func (k Key) IDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !k.IsSubagent() {
			return
		}
		for body, more := k.unthreaded(), true; more; {
			var id string
			_, body, _ = strings.Cut(body, ":")
			id, body, more = strings.Cut(body, ":")
			if !yield(id) {
				return
			}
		}
	}
}

// Display returns k in a short form for people, for lists and logs. The leading "agent:" is left
// out, the main session of the agent main is "main", and UUIDs are cut to their first eight digits.
// The result cannot be parsed.
func (k Key) Display() string {
	if k == mainKey(DefaultAgent) {
		return wordMain
	}
	segments := strings.Split(strings.TrimPrefix(k.s, wordAgent+":"), ":")
	for i, s := range segments {
		if isUUID(s) {
			segments[i] = s[:8]
		}
	}
	return strings.Join(segments, ":")
}

// MarshalText returns the canonical form of k, which is empty for the zero Key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.s), nil }

// UnmarshalText sets k to the key that [Parse] reads from text. Empty text gives the zero Key. Text
// that is not a key is a *[KeyError] and leaves k as it is.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = Key{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// cut splits "agent:<agent>:<body>". Both results are "" for the zero Key, the global session and
// the reserved roots.
func (k Key) cut() (agent, body string) {
	rest, ok := strings.CutPrefix(k.s, wordAgent+":")
	if !ok {
		return "", ""
	}
	agent, body, _ = strings.Cut(rest, ":")
	return agent, body
}

// unthreaded returns the body of k up to its first thread or topic.
func (k Key) unthreaded() string {
	_, body := k.cut()
	if i := strings.Index(body, ":"+wordThread+":"); i >= 0 {
		body = body[:i]
	}
	if i := strings.Index(body, ":"+wordTopic+":"); i >= 0 {
		body = body[:i]
	}
	return body
}

// A chatParts holds the parts of a chat key.
type chatParts struct{ channel, account, peer string }

// chat returns the parts of k if it is the key of a chat.
func (k Key) chat() chatParts {
	switch k.Kind() {
	case KindDirect, KindGroup, KindChannel:
	default:
		return chatParts{}
	}
	first, rest, _ := strings.Cut(k.unthreaded(), ":")
	if first == wordDirect {
		return chatParts{peer: rest}
	}
	second, rest, _ := strings.Cut(rest, ":")
	switch second {
	case wordDirect, wordGroup, wordChannel:
		return chatParts{channel: first, peer: rest}
	}
	_, peer, _ := strings.Cut(rest, ":")
	return chatParts{channel: first, account: second, peer: peer}
}

// isUUID reports whether s has the form 8-4-4-4-12 of hexadecimal digits in lower case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
