// Package cluster is what a process of a cluster does, whatever its engine is: it beats, claims,
// calls, serves requests, looks for orphans and after lanes. It is for implementations of
// session.Owners.
//
//	session.Owners --> Owners --+-- Ledger   what the engine decides, by its clock
//	                            +-- Wire     hints from process to process, which may be lost
//	                            |
//	                   Serve ---+-- beats    one goroutine, so that nothing holds it up
//	                            +-- rounds   requests and the sweep: on a hint, or each second
//	                            +-- lanes    the same, so that no turn waits for a request
//
// An engine implements [Ledger] and a [Wire], and makes an [Owners] of them with [NewOwners]. What
// is decided without an engine is in package lease. Begin in ledger.go, then owners.go.
package cluster
