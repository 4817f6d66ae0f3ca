// Package binding keeps thread bindings. A thread binding says that a conversation in the world
// belongs to another session than the one that its chat would have, for example to a sub-agent that
// a person talks to in a thread of its own.
//
//	a message in a thread
//	       |                   Table
//	       +-- Find ---------> conversation -> session, from memory
//	       |                     ^
//	       +-- Begin, Bind ------+--> session.Journal, under session.BindingsRoot
//	           Unbind, SetLimit       Append after the last sequence | ErrConflict: decide again
//	           Touch
//	                   |
//	                   +-- Owed, Settle: a farewell for each end
//
// [Open] reads the log of bindings from a [session.Journal] and returns its [Table]. A [Binding]
// names the conversation, the session, the owner who made the binding, and two limits: how long the
// conversation may be idle, and how old the binding may become. A lookup does not return a binding
// that has expired. [Table.Expire] records that such bindings have ended.
//
// A binding that ends is owed a farewell, and its session has to be told. [Table.Owed] has such
// ends, also those of an earlier process, until [Table.Settle] says that both have happened.
// Package agent does that. A caller that tells a session of a binding before the Table has it calls
// [Table.Begin] first, so that what does not come about is owed likewise. [Table.Former] knows for
// a week which sessions a conversation had.
//
// Only its owner may change a binding. Another owner gets an [Error] that wraps [ErrNotOwner].
// [SystemOwner] may change every binding, and every owner may change a binding of SystemOwner.
//
// [Resolve] turns levels of configuration, each of them [Settings], into the [Policy] of an
// account. A Table does not know of a Policy: its caller puts the limits into each [Request].
//
// The names that matter most are [Open], [Table] with Bind, Find, Touch, Unbind and Expire,
// [Request], [Binding], [Error] and [Resolve]. Begin with table.go, which is what a caller uses.
// state.go has the rules that decide what a change does to the log, without a clock or a Journal.
package binding
