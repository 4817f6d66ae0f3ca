// Package tree is the life of a tree of runs as two functions over facts: Decide says what a command changes, Apply folds what
// contains changed. It knows no clock, no randomness, no goroutine and no storage.
//
//	command, now
//	     |
//	     v                      emit: append to the batch, Apply at once
//	  decide ---> facts -----------------------------------------+
//	     |                                                       v
//	     |                                             +-------------------+
//	     +---> settle: what was touched, to a fixpoint |  Tree: sessions,  |
//	              |                                    |  inboxes, joins,  |
//	              v                                    |  outbox, timers   |
//	           effects: ask, start, cancel, deliver    +-------------------+
//
// The facts are the journal's; their codec is in codec.go, the transition table in state.go.
package tree
