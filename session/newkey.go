package session

import (
	"strings"

	"github.com/google/uuid"
)

// DefaultAgent is the id of the agent that is meant where none is named.
const DefaultAgent = "main"

// Must returns k, or panics if err is not nil. It wraps the functions that return a Key and an
// error, for keys that a program spells out itself:
//
//	chat := session.Must(session.DirectKey("main", "terminal", "me"))
//
// A part that comes from a transport or a person is input, and its error is for the caller to
// handle.
func Must(k Key, err error) Key {
	if err != nil {
		panic(err)
	}
	return k
}

// MainKey returns agent:<agent>:main, the session that an agent has when no other is meant.
//
// Like every function here that makes a key of parts, it returns a *[KeyError] that names the part
// which cannot stand in a key, and that is [ErrInvalidKey].
func MainKey(agent string) (Key, error) { return join(agent, wordMain, "") }

// mainKey is [MainKey] for an agent that has been checked.
func mainKey(agent string) Key { return Key{wordAgent + ":" + agent + ":" + wordMain} }

// NamedKey returns agent:<agent>:<name>, the key of a session that is not a chat, such as a batch
// job. A word of the grammar is not a name: NamedKey(agent, "main") is an error, not the main
// session.
func NamedKey(agent, name string) (Key, error) {
	name = lower(name)
	return join(agent, name, "", checkPart("name", name, checkName))
}

// DirectPeerKey returns agent:<agent>:direct:<peer>, one session for a person whatever the channel.
func DirectPeerKey(agent, peer string) (Key, error) {
	return join(agent, wordDirect, peer, checkOpaquePart("peer", peer))
}

// DirectKey returns agent:<agent>:<channel>:direct:<peer>, a person's chat with an agent on a
// channel.
func DirectKey(agent, channel, peer string) (Key, error) {
	return chatKey(agent, channel, wordDirect, peer)
}

// DirectAccountKey returns agent:<agent>:<channel>:<account>:direct:<peer>, a person's chat with
// one of the accounts that the bot has on a channel.
func DirectAccountKey(agent, channel, account, peer string) (Key, error) {
	channel, account = lower(channel), lower(account)
	return join(agent, channel+":"+account+":"+wordDirect, peer,
		checkPart("channel", channel, checkName), checkPart("account", account, checkAccount),
		checkOpaquePart("peer", peer))
}

// GroupKey returns agent:<agent>:<channel>:group:<peer>, a group chat.
func GroupKey(agent, channel, peer string) (Key, error) {
	return chatKey(agent, channel, wordGroup, peer)
}

// ChannelKey returns agent:<agent>:<channel>:channel:<peer>, a room or channel that many people
// read.
func ChannelKey(agent, channel, peer string) (Key, error) {
	return chatKey(agent, channel, wordChannel, peer)
}

// CronKey returns agent:<agent>:cron:<job>, the session of a scheduled job.
func CronKey(agent, job string) (Key, error) {
	job = lower(job)
	return join(agent, wordCron, job, checkPart("job", job, checkID))
}

// CronRunKey returns agent:<agent>:cron:<job>:run:<run>, the session of one run of a scheduled job.
func CronRunKey(agent, job, run string) (Key, error) {
	job, run = lower(job), lower(run)
	return join(agent, wordCron+":"+job+":"+wordRun, run,
		checkPart("job", job, checkID), checkPart("run", run, checkID))
}

// ACPKey returns agent:<agent>:acp:<id>, the session of an external harness that speaks the Agent
// Client Protocol.
func ACPKey(agent, id string) (Key, error) {
	id = lower(id)
	return join(agent, wordACP, id, checkPart("id", id, checkID))
}

// HookKey returns agent:<agent>:hook:<id>, the session that a webhook starts. The id may have
// several parts with a colon between them.
func HookKey(agent, id string) (Key, error) {
	id = lower(id)
	return join(agent, wordHook, id, checkParts("id", id, checkID))
}

// GlobalKey returns the key of the one session that all agents and chats share where a bot is
// configured so.
func GlobalKey() Key { return Key{wordGlobal} }

// Thread returns the key of the thread id in the chat or session k. It returns a *[KeyError] for an
// id that cannot stand in a key, and for a k that is not the session of an agent.
func (k Key) Thread(id string) (Key, error) { return k.suffix(wordThread, id) }

// Topic is [Key.Thread] for channels that call it a topic.
func (k Key) Topic(id string) (Key, error) { return k.suffix(wordTopic, id) }

// Child returns the key of a sub-agent of k that the given agent runs: agent:<agent>:subagent:<id>,
// and below a sub-agent the ids of k as well, agent:<agent>:subagent:<k's ids>:subagent:<id>.
// Whatever else k is contributes nothing, nor does the thread that a sub-agent is bound to. A k that
// is written with the word spawn gives a key that is written with subagent throughout. The id is the
// caller's; [NewID] makes one. It returns a *[KeyError] for a k that is not a session, and for an
// agent or id that cannot stand in a key.
func (k Key) Child(agent, id string) (Key, error) {
	id = lower(id)
	bad := checkPart("id", id, checkID)
	if !k.IsValid() {
		bad = &KeyError{Key: k.s, Part: "parent", Reason: "not a session"}
	}
	if bad != nil {
		return Key{}, bad
	}
	if !k.IsSubagent() {
		return join(agent, wordSubagent, id)
	}
	var b strings.Builder
	for above := range k.IDs() {
		b.WriteString(wordSubagent + ":" + above + ":")
	}
	b.WriteString(wordSubagent)
	return join(agent, b.String(), id)
}

// Key returns the key of a direct chat in this scope, or a *[KeyError] if a part that the scope
// needs is missing or cannot stand in a key. It never falls back to a wider scope: a chat of unknown
// origin must not become the main session.
func (s DirectScope) Key(agent, channel, account, peer string) (Key, error) {
	switch s {
	case DirectMain:
		return MainKey(agent)
	case DirectPerPeer:
		return DirectPeerKey(agent, peer)
	case DirectPerChannelPeer:
		return DirectKey(agent, channel, peer)
	case DirectPerAccount:
		return DirectAccountKey(agent, channel, account, peer)
	}
	return Key{}, &KeyError{Key: s.String(), Part: "scope", Reason: "not a direct scope"}
}

// NewID returns a fresh random id for a sub-agent or a session, a version 4 UUID in its canonical
// text form.
func NewID() string { return uuid.NewString() }

// join returns the key that has the words and parts in head behind the agent, and then tail, unless
// that is empty. The parts have been checked: bad are what is wrong with them, in their order, nil
// for one that is right.
func join(agent, head, tail string, bad ...*KeyError) (Key, error) {
	agent = lower(agent)
	if err := checkPart("agent", agent, checkAgent); err != nil {
		return Key{}, err
	}
	for _, err := range bad {
		if err != nil {
			return Key{}, err
		}
	}
	if tail == "" {
		return sized(wordAgent + ":" + agent + ":" + head)
	}
	return sized(wordAgent + ":" + agent + ":" + head + ":" + tail)
}

// sized returns the key of a text that is right but perhaps too long.
func sized(s string) (Key, error) {
	if len(s) > MaxKeyLen {
		return Key{}, &KeyError{Key: s, Offset: MaxKeyLen, Reason: tooLong}
	}
	return Key{s}, nil
}

func chatKey(agent, channel, word, peer string) (Key, error) {
	channel = lower(channel)
	return join(agent, channel+":"+word, peer,
		checkPart("channel", channel, checkName), checkOpaquePart("peer", peer))
}

func (k Key) suffix(word, id string) (Key, error) {
	if k.Agent() == "" {
		return Key{}, &KeyError{Key: k.s, Part: "chat", Reason: "not the session of an agent"}
	}
	if err := checkOpaquePart(word, id); err != nil {
		return Key{}, err
	}
	return sized(k.s + ":" + word + ":" + id)
}

// checkPart returns what is wrong with one part of a key, or nil.
func checkPart(part, value string, check func(string) (int, string)) *KeyError {
	if at, reason := check(value); reason != "" {
		return &KeyError{Key: value, Part: part, Offset: at, Reason: reason}
	}
	return nil
}

// checkParts is [checkPart] for a value of several segments with a colon between them.
func checkParts(part, value string, check func(string) (int, string)) *KeyError {
	start := 0
	for segment := range strings.SplitSeq(value, ":") {
		if at, reason := check(segment); reason != "" {
			return &KeyError{Key: value, Part: part, Offset: start + at, Reason: reason}
		}
		start += len(segment) + 1
	}
	return nil
}

func checkOpaquePart(part, value string) *KeyError { return checkParts(part, value, checkOpaque) }

// checkAccount says what is wrong with an account, in lower case. A word for the kind of a chat
// would be read as one.
func checkAccount(s string) (at int, reason string) {
	switch s {
	case wordDirect, wordDM, wordGroup, wordChannel:
		return 0, reserved
	}
	return checkID(s)
}
