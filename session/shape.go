package session

import (
	"strings"

	"github.com/google/uuid"
)

// DefaultAgent is the id of the agent that is meant where none is named.
const DefaultAgent = "main"

// Main returns agent:<agent>:main, the session that an agent has when no other is meant.
func Main(agent string) Key { return joined(agent, wordMain, "") }

// Named returns agent:<agent>:<name>, the key of a session that is nobody's chat, such as a batch job. A word of the grammar is no
// name: Named(agent, "main") is the zero Key, not the main session.
func Named(agent, name string) Key {
	name = lower(name)
	if !valid(checkName, name) {
		return Key{}
	}
	return joined(agent, name, "")
}

// DirectPeer returns agent:<agent>:direct:<peer>, one session for a person whatever the channel.
func DirectPeer(agent, peer string) Key { return makeOpaque(agent, wordDirect, peer) }

// Direct returns agent:<agent>:<channel>:direct:<peer>, a person's chat with an agent on a channel.
func Direct(agent, channel, peer string) Key { return makeChat(agent, channel, wordDirect, peer) }

// DirectAccount returns agent:<agent>:<channel>:<account>:direct:<peer>, a person's chat with one of the accounts that the bot has on
// a channel.
func DirectAccount(agent, channel, account, peer string) Key {
	channel, account = lower(channel), lower(account)
	switch account {
	case wordDirect, wordDM, wordGroup, wordChannel: // it would be read as the kind of the chat
		return Key{}
	}
	if !valid(checkName, channel) || !valid(checkID, account) {
		return Key{}
	}
	return makeOpaque(agent, channel+":"+account+":"+wordDirect, peer)
}

// Group returns agent:<agent>:<channel>:group:<peer>, a group chat.
func Group(agent, channel, peer string) Key { return makeChat(agent, channel, wordGroup, peer) }

// Channel returns agent:<agent>:<channel>:channel:<peer>, a room or channel that many people read.
func Channel(agent, channel, peer string) Key { return makeChat(agent, channel, wordChannel, peer) }

// Cron returns agent:<agent>:cron:<job>, the session of a scheduled job.
func Cron(agent, job string) Key { return makeID(agent, wordCron, job) }

// CronRun returns agent:<agent>:cron:<job>:run:<run>, the session of one run of a scheduled job.
func CronRun(agent, job, run string) Key {
	if !valid(checkID, lower(job)) {
		return Key{}
	}
	return makeID(agent, wordCron+":"+lower(job)+":"+wordRun, run)
}

// ACP returns agent:<agent>:acp:<id>, the session of an external harness that speaks the Agent Client Protocol.
func ACP(agent, id string) Key { return makeID(agent, wordACP, id) }

// Hook returns agent:<agent>:hook:<id>, the session that a webhook starts. The id may have several parts with a colon between them.
func Hook(agent, id string) Key {
	id = lower(id)
	for part := range strings.SplitSeq(id, ":") {
		if !valid(checkID, part) {
			return Key{}
		}
	}
	return joined(agent, wordHook, id)
}

// Global returns the key of the one session that all agents and chats share where a bot is configured so.
func Global() Key { return Key{wordGlobal} }

// Thread returns the key of the thread id in the chat or session k, zero if k names no session of an agent.
func (k Key) Thread(id string) Key { return k.suffix(wordThread, id) }

// Topic is [Key.Thread] for channels that call it a topic.
func (k Key) Topic(id string) Key { return k.suffix(wordTopic, id) }

// NewID returns a fresh random id for a sub-agent or a session, a version 4 UUID in its canonical text form.
func NewID() string { return uuid.NewString() }

func valid(check func(string) (int, string), s string) bool {
	_, reason := check(s)
	return reason == ""
}

// joined joins an agent, which it checks, with the rest of a key, which is right. An empty tail is left out.
func joined(agent, head, tail string) Key {
	agent = lower(agent)
	var s string
	if tail == "" {
		s = wordAgent + ":" + agent + ":" + head
	} else {
		s = wordAgent + ":" + agent + ":" + head + ":" + tail
	}
	if !valid(checkAgent, agent) || len(s) > MaxKeyLen {
		return Key{}
	}
	return Key{s}
}

func makeID(agent, head, id string) Key {
	id = lower(id)
	if !valid(checkID, id) {
		return Key{}
	}
	return joined(agent, head, id)
}

func makeChat(agent, channel, word, peer string) Key {
	channel = lower(channel)
	if !valid(checkName, channel) {
		return Key{}
	}
	return makeOpaque(agent, channel+":"+word, peer)
}

func makeOpaque(agent, head, peer string) Key {
	if !validOpaque(peer) {
		return Key{}
	}
	return joined(agent, head, peer)
}

func (k Key) suffix(word, id string) Key {
	s := k.s + ":" + word + ":" + id
	if k.Agent() == "" || !validOpaque(id) || len(s) > MaxKeyLen {
		return Key{}
	}
	return Key{s}
}

// validOpaque reports whether each part of s between colons can stand in a peer or a thread's id.
func validOpaque(s string) bool {
	for part := range strings.SplitSeq(s, ":") {
		if !valid(checkOpaque, part) {
			return false
		}
	}
	return true
}
