// Package agenttest runs a bot in a test: a scripted model instead of a real one, virtual time instead of waiting, and crashes
// wherever they hurt.
//
//	 Script ---> model calls          the test, f(h)
//	               |                     |  Post, Replied, Child, Crash
//	               v                     v
//	+-------------------- bubble: time passes when all wait --------------------+
//	|  life 1: Runtime --X killed            life 2: Runtime                    |
//	|            |        \                    |                                |
//	|            v         +-- its writes      v                                |
//	|  =========================== one Store ================================   |
//	+---------------------------------------------------------------------------+
//	               |
//	               v  when f has returned: nothing lost, nothing twice, nothing left
//
// [Run] runs a function against a Runtime in a bubble of testing/synctest. A time.Sleep in it returns as soon as nothing else can
// happen before, so that a test of something that takes ten minutes takes no time. When the function has returned, Run lets what
// is under way come to its end, shuts down, and fails the test if a completion was lost or came twice, if a reply was, if a
// session had two turns at once, if a former owner of a tree could still write, or if a goroutine is left.
//
// [EveryCrash] runs the same function again and again and kills the process at each write to the store, once right before and
// once right after it, starting another one on what the store holds by then.
//
// A context from outside the bubble stops virtual time: use [Harness.Context] in the function, not the Context method of the
// test around it.
package agenttest
