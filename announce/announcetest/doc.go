// Package announcetest helps to test what stands at the end of an announcement: receivers of deliveries, and whatever
// shows a child's text to a model or to a person.
//
//	Forgeries --> [ announce.Event ] --> ForModel  --> CheckFence: one event, and nothing of it is the child's
//	                                +--> ForPerson --> CheckPerson: no token, no metadata
//
//	Delivery, again, out of order --> [ your Deliver ] --> TestDeliver: acted once for each Key
package announcetest
