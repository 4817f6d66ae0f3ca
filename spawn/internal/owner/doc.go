// Package owner is the thin shell around the decisions about one tree: it drains a queue of commands in batches and always
// decides and applies, appends once, then acts and replies.
//
//	Post, Spawn, Stop ...      TurnDone, Settle, Granted, Tick
//	       |                              |
//	       v                              v
//	  +---------------------- queue ----------------------+
//	  |  decide + apply all  ->  append once  ->  act, reply  |
//	  +-----------------------------------------------------+
//	           |                    |              |
//	         tree               journal     executor, lane, outbox
//
// Nothing reaches the world, and nobody reads, before the append is durable.
package owner
