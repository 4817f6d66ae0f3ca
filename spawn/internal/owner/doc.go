// Package owner runs one tree of sessions: it takes commands from a queue, decides them, records
// what follows in the journal, and only then acts on it. The decisions themselves are in package
// tree, which is pure; this package has the goroutine, the journal, the clock and the timer.
//
//	Post, Spawn, Stop ...          TurnDone, Settle, Granted, Tick
//	         |                                  |
//	         v                                  v
//	+---------------------------- queue ----------------------------+
//	|  decide and apply a batch -> append it once -> act, answer    |
//	+---------------------------------------------------------------+
//	         |                           |               |
//	        tree                      journal     Executor, Lane, callers
//
// Begin in owner.go with [Owner] and its method step, which is one round of the picture. Then read
// call.go (how commands reach the queue and answers reach callers), journal.go (appending, and
// finding out what an unclear append did), stall.go (a journal that fails for a while), timer.go
// (the clock, and unloading an idle tree) and lane.go (the limit on concurrent turns).
//
// The invariants:
//
//   - Nothing reaches the world before the facts that it follows from are durable: no turn starts,
//     nothing is delivered, no caller is answered, and no caller reads the tree.
//   - At most one goroutine touches a tree at a time. An idle tree has no goroutine.
//   - All that is in the queue when a round begins is decided together and appended once.
//   - The tree in memory is never behind the journal. It is ahead of it only within a round and
//     during a stall, when nothing may be seen of it.
//   - Work in memory belongs to an incarnation, a number that grows whenever the tree is discarded
//     or unloaded. What an older incarnation started changes nothing.
//   - A slot of the lane that was taken is freed exactly once, also when the tree is discarded.
//   - A panic of the journal or of a decision is an error of the round, never the end of the
//     process.
package owner
