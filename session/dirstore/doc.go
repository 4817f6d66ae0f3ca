// Package dirstore keeps a [session.Store] in a directory, with the standard library alone.
//
//	store, err := dirstore.Open("state")
//
// [Open] is for the one process that writes, [View] reads beside it, and [Verify] looks at every
// byte of it. The directory has
//
//	<dir>/lock                           who has the directory open, or had it last
//	<dir>/journal/00000001.wal           one write-ahead log for all trees, compacted as it grows
//	<dir>/journal/idle/3f/3f9a....wal    trees that are never due, read on demand
//	<dir>/sessions/<agent>/<session id>.jsonl    transcripts, to tail and grep
//	        ....jsonl.deleted.<timestamp>        transcripts that were archived
//	        ....jsonl.torn.<offset>[.<n>]        what had to be cut off; kept for a person to look at
//	*.tmp                                what was not whole when a process died
//
// The next process that writes beside a file *.tmp removes it.
// Files are for the user alone: 0600, directories 0700.
//
// # What is promised
//
// Everything that a method said was done is still there after the process was killed or the power
// was lost, as far as the disk tells the truth. Windows cannot be asked when a name is on the disk:
// there the power may take names that are only moments old, and the files with them. Appends of
// different trees share one sync of the disk.
//
// A directory has one Store at a time. Another Open gets a *[LockedError] that says which process
// has it. The lock ends with the process that holds it, however that ends. It needs a system that
// can lock files: Linux, macOS, the BSDs, Windows. On others only View works.
//
// A disk that is full or away for a while makes appends fail, and they work again when it does.
// Only a [session.ErrSync] of the journal stays until the directory is opened again.
// [session.Store.Health] says what has gone wrong that no append was refused for: for example, why
// the log could not be compacted the last time.
//
// # Rot
//
// A crash leaves at most the last thing that no caller was told of, and that is cut off. What was
// acknowledged and is not there any more as it was is a *[session.CorruptError] with file and
// offset. Open returns that of the log; whatever reads an idle tree or a transcript, or would
// append to it, returns that of its file. What a newer version wrote is [session.ErrFormat].
//
// Verify cannot see
//
//   - rot in the very last group of a log that was not closed, and in the last write of a
//     transcript, if it looks like what a crash leaves;
//   - a letter of a transcript that has become another one, because lines that are made to be read
//     with other tools have no checksum;
//   - that the whole file of an idle tree or of a transcript was removed, which then begins anew;
//   - that the directory is an older copy of itself.
//
// # Where to begin
//
// store.go opens the two parts. journal.go is the index of the log, append.go and read.go use it,
// compact.go and idle.go put trees away. transcripts.go and transcript.go are the other part,
// transcriptend.go says where a transcript ends after a crash.
package dirstore
