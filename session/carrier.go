package session

import "context"

// A Carrier is a Transcripts whose engine also has a Journal, and can make lines durable together
// with a batch of it: one sync for both, where two appends take two. The Transcripts of a directory
// is a Carrier. One whose lines and batches go different ways need not be, and loses nothing but
// the time of a sync.
//
//	AppendWith    every Read sees the lines
//	Journal.Append to the same tree, when it has returned without an error
//	              the batch and the lines are durable
//
// Package agent uses it for lines that nothing relies on before a batch says so: what a turn begins
// with, and its answer.
type Carrier interface {
	Transcripts

	// CarriedBy reports whether j is the Journal whose batches carry the lines of AppendWith. It is
	// the one of the same [Store], and not another one with it inside: where a Journal was put in
	// its place, nothing is carried, and the caller uses Append.
	CarriedBy(j Journal) bool

	// AppendWith is Append, except for when the lines are durable. They are at the latest when an
	// Append to the log of root has returned without an error that began after AppendWith had
	// returned. Lines of the same transcript that are appended later are not durable before them,
	// in whatever way they come. An Append to the log that fails leaves them to the next one. So do
	// a process and its power that end before: they may lose the last lines, and never one that a
	// batch names.
	//
	// Lines whose batch does not come become durable by themselves within seconds, and with Close.
	AppendWith(
		ctx context.Context, root Key, ref Ref, after Pos, messages ...Message,
	) (Pos, error)
}
