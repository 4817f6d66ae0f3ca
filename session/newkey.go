package session

import (
	"strings"

	"github.com/google/uuid"
)

// DefaultAgent is the id of the agent where a name does not tell one.
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

// MainKey returns agent:<agent>:main, the main session of an agent.
//
// MainKey, like every constructor here, returns the zero Key and a *[KeyError] if a part cannot
// stand in a key. The error names the part, and errors.Is finds [ErrInvalidKey] in it.
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

// DirectPeerKey returns agent:<agent>:direct:<peer>, the chats of a person with an agent on every
// channel.
func DirectPeerKey(agent, peer string) (Key, error) {
	return join(agent, wordDirect, peer, checkOpaquePart("peer", peer))
}

// DirectKey returns agent:<agent>:<channel>:direct:<peer>, the chat of a person with an agent on a
// channel.
func DirectKey(agent, channel, peer string) (Key, error) {
	return chatKey(agent, channel, wordDirect, peer)
}

// DirectAccountKey returns agent:<agent>:<channel>:<account>:direct:<peer>, the chat of a person
// with one of the bot's accounts on a channel.
func DirectAccountKey(agent, channel, account, peer string) (Key, error) {
	channel, account = lower(channel), lower(account)
	return join(agent, channel+":"+account+":"+wordDirect, peer,
		checkPart("channel", channel, checkName), checkPart("account", account, checkAccount),
		checkOpaquePart("peer", peer))
}

// GroupKey returns agent:<agent>:<channel>:group:<peer>, a group chat.
//
// A peer here, and in every key of a chat, is not one of the words subagent, spawn, thread and
// topic, in any letter case: other readers of keys look for these words anywhere, and would take
// the chat for a sub-agent. For a room of that name the error is a *[KeyError] with the Part
// "peer". The transport then marks its names, for instance as #subagent, and takes the mark off
// again where it sends.
func GroupKey(agent, channel, peer string) (Key, error) {
	return chatKey(agent, channel, wordGroup, peer)
}

// ChannelKey returns agent:<agent>:<channel>:channel:<peer>, a room or channel with many readers.
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
// several parts, separated by colons.
func HookKey(agent, id string) (Key, error) {
	id = lower(id)
	return join(agent, wordHook, id, checkParts("id", id, checkID))
}

// GlobalKey returns the key of the one session that all agents and chats share, in a bot that is
// configured for it.
func GlobalKey() Key { return Key{wordGlobal} }

// Thread returns the key of the thread id in the chat or session k. It returns a *[KeyError] if the
// id cannot stand in a key, or if k is not the session of an agent.
func (k Key) Thread(id string) (Key, error) { return k.suffix(wordThread, id) }

// Topic is [Key.Thread] for channels that call their threads topics.
func (k Key) Topic(id string) (Key, error) { return k.suffix(wordTopic, id) }

// Child returns the key of a sub-agent of k, which the given agent runs. The key is
// agent:<agent>:subagent:<id>. If k is a sub-agent itself, the ids of k come first:
// agent:<agent>:subagent:<k's ids>:subagent:<id>. Nothing else of k is part of the key, not even a
// thread. Below a k that is written with the word spawn, the key is written with subagent
// throughout. The caller chooses the id, for example by [NewID].
//
// Child returns a *[KeyError] if k is not a session, or if the agent or the id cannot stand in a
// key.
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

// Key returns the key of a direct chat in the scope s. It returns a *[KeyError] if a part that the
// scope needs is empty or cannot stand in a key. It never falls back to a wider scope: a chat of
// unknown origin must not become the main session.
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

// join returns the key agent:<agent>:<head>:<tail>, without the last colon if tail is empty. The
// caller has checked the parts. It passes in bad what it found, nil for a part that is right, and
// join returns the first error.
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

// sized returns the key s, which is right but may be too long.
func sized(s string) (Key, error) {
	if len(s) > MaxKeyLen {
		return Key{}, &KeyError{Key: s, Offset: MaxKeyLen, Reason: tooLong}
	}
	return Key{s}, nil
}

// chatKey returns agent:<agent>:<channel>:<word>:<peer>.
func chatKey(agent, channel, word, peer string) (Key, error) {
	channel = lower(channel)
	return join(agent, channel+":"+word, peer,
		checkPart("channel", channel, checkName), checkOpaquePart("peer", peer))
}

// suffix returns k with a thread or topic, as word says, at its end.
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

// checkParts is [checkPart] for a value with several segments, separated by colons.
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

// checkOpaquePart is checkParts for a peer or the id of a thread.
func checkOpaquePart(part, value string) *KeyError { return checkParts(part, value, checkOpaque) }

// checkAccount returns what is wrong with an account in lower case. A word for a kind of chat is
// reserved, since Parse would read it as that kind.
func checkAccount(s string) (at int, reason string) {
	switch s {
	case wordDirect, wordDM, wordGroup, wordChannel:
		return 0, reserved
	}
	return checkID(s)
}
