// Package spawn is the life of a tree of runs: a top-level session and every sub-agent below it.
//
// A [Supervisor] admits what policy allows, runs one turn of each session at a time through the [Runner] that its user brings,
// and sees to it that every end comes back to whoever asked for it, over restarts too. All that happens in a tree is facts in
// one append-only journal, written by one owner; nothing reaches the world before it is durable.
//
//	               Spawn, Post, Steer, Stop, Wait                        what the world sees
//	                             |                                               ^
//	Supervisor                   v                                               |
//	+-- one owner a tree -----------------------------------------------------------------------+
//	|   commands -> decide and apply all of them -> append once -> act, then reply              |
//	|                    |                              |           |                           |
//	|                  tree                          journal        +-> lane     slots, in turn |
//	|        agent:main:main                                        +-> Runner   one turn each  |
//	|          +- ...:subagent:a   running                          +-> Deliver  the outbox     |
//	|          |    +- ...:subagent:b   queued                      +-> Archive  transcripts    |
//	|          +- ...:subagent:c   ok                                                           |
//	+-------------------------------------------------------------------------------------------+
//
// # Sessions and turns
//
// Every session, top-level or not, is an inbox and one turn at a time. What people say, what a run was asked to do, a steer, and
// the end of a child are inputs; a turn consumes all that there are. A session that waits for children holds no slot of the
// lane and costs no goroutine. A run ends when its turn has ended with nothing left to read, no child alive and nothing to wait
// for.
//
// A run ends otherwise when there is a cause: it failed, ran out of time, was stopped, lost its process, or met a limit. The
// first cause wins. Its descendants are stopped first and it ends after the last of them, so that no run that has ended has
// a live one below it; the text of its turn is kept. A turn that is cancelled and does not return is given up after a grace
// period.
//
//	stateDiagram-v2
//	    [*] --> queued
//	    queued --> running
//	    queued --> stopping
//	    running --> waiting
//	    running --> stopping
//	    waiting --> running
//	    waiting --> stopping
//	    waiting --> ok
//	    stopping --> failed
//	    stopping --> timed_out
//	    stopping --> cancelled
//	    stopping --> interrupted
//	    stopping --> incomplete
//	    ok --> [*]
//	    failed --> [*]
//	    timed_out --> [*]
//	    cancelled --> [*]
//	    interrupted --> [*]
//	    incomplete --> [*]
//
// # What is promised
//
// A session that Offshoot runs is told of the end of each child exactly once, whatever crashes when. What leaves a tree, the
// completions for sessions that the caller runs and the replies to people, is handed to [Config].Deliver at least once and
// always under the same key. The same spawn key gives the same run, the same message ID is one message. When [Supervisor.Stop]
// has returned nil, nothing below the session is running. A panic in a Runner, a Deliver or a store is contained.
//
// After a crash, runs that never started are started; a run that had a turn under way is interrupted, and its requester told; a
// top-level session that had one gets another over the same inputs, marked as a retry.
//
// # Looking on
//
// [Supervisor.Runs], [Supervisor.Outbox] and [Supervisor.Events] are for the process that owns a tree. [View] says the same of the
// journal alone, in any process and beside the owner; [Describe] puts one entry into words.
package spawn
