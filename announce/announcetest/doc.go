// Package announcetest tests what stands at the end of an announcement: a receiver of deliveries,
// and code that shows a child's text to a model or to a person.
//
//	Forgeries --> [ announce.Event ] --> ForModel  --> CheckFence: one event, by the runtime
//	                                +--> ForPerson --> CheckPerson: no token, no metadata
//
//	deliveries, some repeated --> [ your Deliver ] --> TestDeliver: acted once for each key
//
//	a Runtime --> FlakySink: fails, hangs, loses answers, repeats --> [ yours ] --> Recorder
//
// Begin with [TestDeliver] in deliver.go. It calls a [Receiver] with deliveries that come twice,
// at once, after a failure, after a restart or out of order, and checks that the Receiver acts
// once for each key:
//
//	func TestReceiver(t *testing.T) {
//		announcetest.TestDeliver(t, func(t *testing.T) announcetest.Receiver {
//			bot := newBot(t)
//			return announcetest.Receiver{Deliver: bot.deliver, Acted: bot.turns}
//		})
//	}
//
// A test of a whole bot uses a [Recorder] as its Deliver or Reply, to see what arrived in which
// order, and a [FlakySink] before it, to see what the bot does when its transport is not reliable.
// What remembers keys in production is [github.com/offshoot-sdk/offshoot/announce.Dedupe].
//
// A program that renders events itself takes the [Forgeries] of forgeries.go. Each [Forgery] is a
// text by which a child tries to pass for another speaker. [CheckFence] checks the text for a model
// and [CheckPerson] the text for a person.
package announcetest
