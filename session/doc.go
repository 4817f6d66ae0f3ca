// Package session says who is who: the keys of sessions, where each stands in its tree, where its
// words go, and how all of it is kept. It decides nothing about what a session may do and starts
// nothing.
//
//	agent:main:main                       a tree: one top-level session and all that is spawned below it
//	|                                       |
//	+- agent:main:subagent:6f1c             +-- Journal      one append-only log, under the key of the root
//	|  |                                    |                Append(after seq, batch) | ErrConflict
//	|  +- agent:ops:subagent:6f1c:...       |
//	|                                       +-- Transcripts  one conversation for each session, under its Ref
//	+- agent:main:subagent:0b6c                              Append(after pos, messages) | ErrConflict
//
//	Key       names a session; valid by construction, says its agent, kind and the depth it claims
//	Lineage   where it stands: root, parent, depth, role; written once, never inferred from a key
//	Route     a conversation in the world: channel, account, whom to, thread
//
// Two packages stand beside the seams: [github.com/offshoot-sdk/offshoot/session/dirstore] keeps a
// [Store] in a directory, and [github.com/offshoot-sdk/offshoot/session/binding] keeps which
// conversations belong to another session than their own, in a log of their own under
// [BindingsRoot].
//
// # Keys
//
// These are the shapes that [Parse] understands. Words in brackets may be missing, those after +
// come once or more.
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
// An agent's id is a letter or digit of ASCII and then letters, digits, - and _, of 64 bytes at
// most. Names, channels, accounts and ids may also hold any of ._~@+= after their first character.
// A peer and the id of a thread are what the channel says, printable and without spaces, colons
// included. No word of the grammar is a name or a channel. The words subagent and spawn stand
// nowhere in a key but before the id of a sub-agent, so that a program that looks for ":subagent:"
// or ":spawn:" in the text is right as well. A key has at most [MaxKeyLen] bytes.
//
// What a channel lets into an id and a key does not, such as a space, an adapter escapes, for
// example with [net/url.PathEscape].
//
// # Lineage
//
// A key of depth two does not say who its parent is, since the child of another agent's session
// carries its own agent's id, and a key can be flat below a sub-agent. So depth, parent and role
// are recorded once, by [Top] and [Lineage.Child], and everything that decides about rights takes a
// [Lineage]. The depth in a key is no more than a floor, and a sub-agent without a record has no
// rights: [Trace] refuses it, as it refuses records that contradict each other.
//
// # Storage
//
// A [Journal] and [Transcripts] are what a storage adapter implements; [NewMemory] has both in
// memory, and package dirstore in a directory. Both append after a position that the writer knows
// and refuse one that is not the end, which makes a writer that has lost its log harmless. Package
// sessiontest tells whether an implementation keeps every promise.
package session
