// Package agenttest runs a bot in a test: with a script in the place of its model, in virtual time,
// and with a crash at every write.
//
//	 Script ---> model calls          the test, f(h)
//	               |                     |  Post, Replied, Child, Crash
//	               v                     v
//	+-------------------- bubble: time passes when all wait -------------------+
//	|  process 1: Runtime --X killed         process 2: Runtime                |
//	|                 |      \                    |                            |
//	|                 v       +-- its writes      v                            |
//	|  =========================== one Store ===============================   |
//	+--------------------------------------------------------------------------+
//	               |
//	               v  when f has returned: nothing lost, nothing twice, nothing left
//
// Begin with [Run], a [Script] of steps ([Say], [Call], [Echo], [Fail], [Hang]) and the methods of
// [Harness]:
//
//	agenttest.Run(t, cfg, agenttest.Script{
//		agenttest.Main: {agenttest.Call("sessions_spawn", `{"task":"count","label":"counter"}`),
//			agenttest.Say("I am on it."), agenttest.Echo()},
//		"counter": {agenttest.Say("There are 12.").After(time.Minute)},
//	}, func(h *agenttest.Harness) {
//		h.Post("How many are there?")
//		h.Replied("I am on it.")
//		time.Sleep(time.Hour) // of virtual time
//		h.Replied("I am on it.", "There are 12.")
//	})
//
// Steps that take no time may come in any order: a sub-agent without After may end before the turn
// that started it, and is then answered in that turn.
//
// Run runs a function against a Runtime in a bubble of testing/synctest. A time.Sleep in it returns
// as soon as nothing else can happen before, so that a test of something that takes ten minutes
// takes no time. When the function has returned, Run lets what is under way come to its end and
// shuts down. It fails the test if the script has no step for a model call, before that or after
// it, if a completion or a reply was lost or came twice, if a session had two turns at once, if a
// former owner of a tree could still write, or if a goroutine is left.
//
// [EveryCrash] runs the same function again and again. It kills the process at each write to the
// store, once right before and once right after it, and starts another process on what the store
// holds by then.
//
// [Cluster] does both with several processes at a time, of which another one goes on with the trees
// of the one that is killed.
//
// What the model got is expected with [Harness.Prompted], [Harness.Offered] and [Harness.Told], and
// what happened with [Harness.Watch] and [Harness.Happened]. [Harness.SetNow] sets the clock that
// prompts show, and [Harness.Pass] lets virtual time pass.
//
// [Replay] is a Model that answers from a file what a real one has answered once.
//
// Authors of a Runner test it with [TestRunner], authors of a ThreadHost with [TestThreads], and
// authors of a Model with [TestModel], before a [Provider] that plays the service of the real one.
// All are kits of numbered rules, like those of package sessiontest.
//
// A context from outside the bubble stops virtual time: use [Harness.Context] in the function, not
// the Context method of the test around it. A call that is given such a context, or one with a
// timeout from outside, or one derived from them, fails the test at once. What cannot be told apart
// ends the test binary: a context of context.WithCancel alone that was made and is cancelled
// outside, and one that the function derives of another context than that of the test.
package agenttest
