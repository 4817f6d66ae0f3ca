// Package remote has what the Stores over a server decide alike: which options of a process of a
// cluster can be used, and how the entries of a batch are written.
//
//	CheckProcess    Options.Process, Lease and Timeout --> the lease, or a Fault
//	AppendEntries   a batch --> its entries, one a line, or how many of them are too much
//
// Nothing here knows an engine. Begin in options.go.
package remote
