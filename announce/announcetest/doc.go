// Package announcetest tests what stands at the end of an announcement: a receiver of deliveries,
// and code that shows a child's text to a model or to a person.
//
//	Forgeries --> [ announce.Event ] --> ForModel  --> CheckFence: one event, by the runtime
//	                                +--> ForPerson --> CheckPerson: no token, no metadata
//
//	Delivery, again, out of order --> [ your Deliver ] --> TestDeliver: acted once for each Key
package announcetest
