// Package session names sessions and keeps what belongs to them: the keys, the places of sessions
// in their trees, the conversations in the world that they belong to, and the interfaces for
// storage. It does not decide what a session may do, and it starts nothing.
//
// A session is one conversation of an agent. A session may spawn sub-agents, which are sessions
// too. A top-level session and all that is spawned below it are a tree. A tree has one log in a
// [Journal], and each of its sessions has a transcript in a [Transcripts].
//
//	agent:main:main                       a tree: a top-level session and its sub-agents
//	|                                       |
//	+- agent:main:subagent:6f1c             +-- Journal      one log for a tree, under its root
//	|  |                                    |                Append(after seq, batch)
//	|  +- agent:ops:subagent:6f1c:...       |
//	|                                       +-- Transcripts  one conversation for each Ref
//	+- agent:main:subagent:0b6c                              Append(after pos, messages)
//
// These names matter most:
//
//   - [Key] names a session; [Parse] reads one, and [MainKey], [DirectKey] and others make one.
//   - [Lineage] says where a session stands: root, parent, depth and [Role].
//   - [Route] is a conversation in the world: channel, account, recipient and thread.
//   - [Message] is one line of a conversation.
//   - [Journal] keeps the log of each tree, and [Transcripts] the conversation of each session.
//   - [Store] holds both; [NewMemory] makes one in memory.
//   - [ErrConflict] tells a writer that another one has written.
//
// To use sessions, read key.go first, then newkey.go. To write a store, read journal.go and then
// transcript.go: they are the two interfaces for storage, with all their rules.
//
// Four packages belong to this one:
//
//   - [github.com/offshoot-sdk/offshoot/session/dirstore] keeps a Store in a directory.
//   - [github.com/offshoot-sdk/offshoot/session/sessiontest] tests the Store of another engine.
//   - [github.com/offshoot-sdk/offshoot/session/binding] binds conversations to sessions, in a log
//     under [BindingsRoot].
//   - [github.com/offshoot-sdk/offshoot/session/storecopy] moves a Store into another one. A Store
//     lets it if its parts are the interfaces of import.go.
//
// A Journal also has the marks of its repairs, under [RepairsRoot]; see [RepairMark], and that of
// the copy that it is, under [CopiesRoot]; see [CopyMark]. A receiver of
// deliveries may keep the keys that it has acted upon there, under [DeliveredRoot].
//
// # Keys
//
// [Parse] understands these shapes. Words in brackets are optional. A part after + occurs once or
// more.
//
//	global
//	agent:<agent>:main
//	agent:<agent>:<name>
//	agent:<agent>:direct:<peer>
//	agent:<agent>:<channel>:direct:<peer>              dm is read as direct
//	agent:<agent>:<channel>:<account>:direct:<peer>
//	agent:<agent>:<channel>:group:<peer>
//	agent:<agent>:<channel>:channel:<peer>
//	agent:<agent>+:subagent:<id>                       and spawn for subagent, also mixed
//	agent:<agent>:cron:<job>[:run:<run>]
//	agent:<agent>:acp:<id>
//	agent:<agent>:hook:<id>[+:<id>]
//	<any but global>+:thread:<id>                      and topic for thread
//
// The id of an agent has at most 64 bytes. It begins with a letter or digit of ASCII, and goes on
// with letters, digits, - and _. Names, channels, accounts and other ids may also have any of
// ._~@+= after their first character. A peer and the id of a thread are as the channel spells them:
// they are printable, do not have spaces, and may have colons.
//
// A word of the grammar is never a name or a channel. The words subagent and spawn stand only
// before the id of a sub-agent. So a program that looks for ":subagent:" or ":spawn:" in the text
// of a key gets the right answer too. A key has at most [MaxKeyLen] bytes.
//
// Some channels allow characters in their ids that a key does not allow, such as spaces. Their
// adapter escapes such ids, for example by [net/url.PathEscape].
//
// # Lineage
//
// A key does not say which session is the parent: the child of another agent's session carries the
// id of its own agent, and the key of a sub-agent can be flat below another sub-agent. So parent,
// depth and role are recorded once, by [Top] and [Lineage.Child], and every decision about rights
// takes a [Lineage]. The depth in a key is only a lower bound. A sub-agent without a record does
// not have rights: [Trace] refuses it, and refuses records that contradict each other.
//
// # Storage
//
// A storage adapter implements [Journal] and [Transcripts]. Both append after a position that the
// writer passes, and return [ErrConflict] for a position that is not the end of the log. So a
// writer that has lost its log to another one cannot do harm.
//
// A Journal also finds the log of a tree by the key of a session in it: a batch names the sessions
// that it brings, see [Batch], and a [RootQuery] asks for one of them.
//
// An archived transcript takes no more lines, and is read by a [LineQuery] that asks for that.
//
// An [Owners] is to let several processes share one engine. It is experimental: package spawn uses
// it.
package session
