// Package load puts a load on a cluster of processes of a bot, and says what it costs: how many
// sub-agents end in a second, how long each takes from its spawn to its delivery, and how well the
// slots of a lane that all processes share are used. It is for the tests of the engines.
//
//	Engine.Spawns, Engine.Lane --> Run --+-- process 0: Load.Serve --> agent.Runtime --+
//	                                     +-- process 1: Load.Serve --> agent.Runtime --+--> engine
//	                                     +-- process 2: Load.Serve --> agent.Runtime --+
//	                                                 |
//	           Use <-- ReadUse <-- file of Events <--+  asks, grants and frees of slots, turns
//
// A process of a load is one of the operating system, so that none waits for another one's
// goroutines. Begin in engine.go.
package load
