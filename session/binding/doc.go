// Package binding keeps thread bindings: which conversation in the world goes to a session other
// than the one that its chat would have.
//
//	a message in a thread
//	       |                   Table
//	       +-- Find ---------> conversation -> session, from memory
//	       |                     ^
//	       +-- Bind, Unbind -----+--> session.Journal, under session.BindingsRoot
//	           SetLimit, Touch        Append after the last sequence | ErrConflict: decide again
//
// [Open] reads the log of bindings in a [session.Journal] and returns its [Table]. A [Binding]
// names the conversation, its session, the owner who made it, and two limits: for how long the
// conversation may be idle, and how old the binding may become. A binding that has expired is not
// found any more; [Table.Expire] writes down that it has ended.
//
// A binding belongs to the owner who made it. Another one who asks for a change gets an [Error]
// that is [ErrNotOwner]; [SystemOwner] may change every binding, and a binding of SystemOwner may
// be changed by every owner.
//
// [Resolve] turns levels of configuration, each of them [Settings], into the [Policy] of an
// account. A Table does not look at a Policy: its caller passes the limits on in a [Request].
package binding
