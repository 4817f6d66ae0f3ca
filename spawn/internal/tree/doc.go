// Package tree decides about the life of a tree of runs. It is two pure functions over facts:
// Decide says what facts follow from a command, and Apply folds a fact into the tree. The package
// uses no clock, no randomness, no goroutine and no storage. Its caller, package owner, passes the
// time and random numbers in and carries the effects out.
//
//	command, now
//	     |
//	     v                     emit: add to the batch, Apply at once
//	  decide ---> facts --------------------------------------------+
//	     |                                                          v
//	     |                                               +-------------------+
//	     +---> settle every touched run, to a fixpoint   |  Tree: sessions,  |
//	              |                                      |  inboxes, joins,  |
//	              v                                      |  outbox, timers   |
//	           effects: ask, start, cancel, deliver      +-------------------+
//
// Begin in fact.go with the table of facts, and in state.go with the states of a run and the
// transitions between them. Then read tree.go (the state), command.go (what may be asked and what
// is wanted in return), decide.go, apply.go and settle.go, in this order. The rest is detail:
// join.go (waiting for children), outbox.go (what leaves the tree), timers.go, budget.go, image.go
// (snapshots), codec.go and encode.go (facts as JSON), describe.go (facts as text).
//
// The invariants:
//
//   - Apply alone changes folded state, which is all that a snapshot holds. Replaying the journal
//     gives the same tree as deciding did.
//   - The same tree, command and time give the same facts and the same effects.
//   - A command that is refused changes nothing, with two exceptions: the late answer of a TurnDone
//     and what a Reserve says was used beyond the reservation are recorded.
//   - Effects follow from the state of the tree, not from the way to it. So recovery after a crash
//     is the same code as normal work.
//   - A session has at most one turn under way. An input is consumed by one turn, or again by a
//     repeat of it after a crash.
//   - A run ends once, and only after its turn is over and everything below it has ended. The first
//     cause to end wins.
package tree
