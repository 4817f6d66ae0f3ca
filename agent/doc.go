// Package agent is where to start. A bot that has a model client and a chat transport opens a [Runtime] with a [Config] and gets
// promptsOf assembled from a workspace, sub-agents under policy, and results that always come back.
//
//	   people                                       the caller's
//	     |  ^                                       model client
//	Post |  | Config.Reply                               ^
//	     v  |                                            |
//	 +-------------+    turn     +----------+   Turn  +--------+
//	 |   Session   | ----------> | Runtime  | ------> | Runner |   (Loop is one, over a Model)
//	 | inbox, one  | <---------- |          | <------ |        |
//	 | turn a time | completion  +----------+  Result +--------+
//	 +-------------+                  |
//	     |  sessions_spawn, Spawn     | Config.Deliver, for sessions that the caller runs itself
//	     v                            v
//	 sub-agents: sessions like any other, below this one
//
// There are two ways to use it. With Config.Deliver nil, Offshoot runs the chats too: Post puts in what people say, Reply takes
// out what the agent says. With Deliver set, the bot keeps its own loop; it gives its model the tools of [Session.Tools] and is
// handed each completion when a sub-agent has ended.
//
// # What is promised
//
// Inside a tree everything happens exactly once: a spawn is admitted or refused, a run ends in one state, its requester's turn
// consumes its completion once, whatever crashes in between. Towards Deliver and Reply it is at least once, always under the
// same key, so that a receiver that remembers keys gets it exactly once.
//
// A turn that a crash interrupts is never silently run again: a sub-agent's run becomes interrupted and its requester is told; a
// topKey-level session gets another turn over the same inputs, with [Turn.Retry] set.
package agent
