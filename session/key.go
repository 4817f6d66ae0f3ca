package session

import (
	"iter"
	"strings"
)

// MaxKeyLen is the greatest length of a key, in bytes.
const MaxKeyLen = 1024

// A Key names a session. It is opaque, comparable and valid by construction: a Key that is not zero was made by [Parse] or by one of
// the constructors, and is in canonical form, so that two keys name the same session exactly if they are equal. The zero Key names no
// session; it is also what a constructor returns if an argument cannot stand where it should, such as an agent id that is none or a peer
// that holds a word of the grammar, and Parse of the same text then says what is wrong. Methods of the zero Key return zero values. No method but Display, Thread, Topic, Child, MarshalText and UnmarshalText
// allocates.
//
// A key tells which agent runs a session, what sort of session it is, and how deep it says it is. It never tells who started the
// session or which tree it belongs to, since the child of another agent's session carries its own agent's id: that is [Lineage].
type Key struct{ s string }

// String returns the canonical form of k, "" for the zero Key.
func (k Key) String() string { return k.s }

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.s == "" }

// IsValid reports whether k names a session: neither the zero Key nor a reserved root such as [BindingsRoot].
func (k Key) IsValid() bool { return k.Kind() != KindInvalid }

// Agent returns the id of the agent that runs the session, "" for the global session, which no one agent runs.
func (k Key) Agent() string {
	agent, _ := k.cut()
	return agent
}

// Kind returns what sort of session k names.
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

// IsMain reports whether k is the main session of its agent, which a thread of it is not.
func (k Key) IsMain() bool { return k.Kind() == KindMain }

// IsSubagent reports whether k names a sub-agent, in any dialect.
func (k Key) IsSubagent() bool { return k.Kind() == KindSubagent }

// Depth returns how many sub-agents deep the key says that k is, 0 for a key that is no sub-agent's. It is a floor: a session that
// was made as a flat key below another sub-agent is deeper than its key says, and only its [Lineage] knows.
func (k Key) Depth() int {
	if !k.IsSubagent() {
		return 0
	}
	_, body := k.cut()
	// The two words stand nowhere in a key but before an id of the chain.
	return 1 + strings.Count(body, ":"+wordSubagent+":") + strings.Count(body, ":"+wordSpawn+":")
}

// ChannelKey returns the channel of a chat key, such as "telegram", else "".
func (k Key) Channel() string {
	c := k.chat()
	return c.channel
}

// Account returns the account of a direct chat that is told apart by account, else "".
func (k Key) Account() string {
	c := k.chat()
	return c.account
}

// Peer returns the person, group or channel of a chat key as the channel spells it, else "".
func (k Key) Peer() string {
	c := k.chat()
	return c.peer
}

// ThreadID returns the id of the thread or topic that k ends with, "" if it does not end with one.
func (k Key) ThreadID() string {
	_, id, _ := k.CutThread()
	return id
}

// CutThread returns k without the thread or topic that it ends with, and the id of that thread. ok is false, and chat is k, if k
// does not end with one. A thread in a thread loses one level.
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

// ID returns the last id in k: that of the sub-agent itself, not of those above it; of the cron job, not of its run; of the external
// harness; the whole of a hook's; the name of a main or named session. It is "" for chats, which have a [Key.Peer], and for the global
// session.
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
	default: // chats, the global session and no key at all have no id
		return ""
	}
}

// CronRunKey returns the id of the run in the key of one run of a cron job, else "".
func (k Key) CronRun() string {
	if k.Kind() != KindCron {
		return ""
	}
	_, run, _ := strings.Cut(k.unthreaded(), ":"+wordRun+":")
	return run
}

// IDs yields the ids of a sub-agent's key, the outermost first, [Key.Depth] of them. There are none in another key.
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

// Display returns k as people read it: without the leading "agent:", "main" for the main session of the agent main, and uuids cut
// to their first eight digits. It is for lists and logs, and cannot be parsed.
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

// MarshalText returns the canonical form of k, empty for the zero Key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.s), nil }

// UnmarshalText is [Parse], but takes empty text for the zero Key.
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

// cut splits "agent:<agent>:<body>". Both are empty for the zero Key, the global session and the reserved roots.
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

// A chatParts is what a chat key says about its chat.
type chatParts struct{ channel, account, peer string }

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

// isUUID reports whether s has the form 8-4-4-4-12 of hexadecimal digits.
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
