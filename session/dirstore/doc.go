// Package dirstore keeps a [session.Store] in a directory. It needs nothing but the standard
// library.
//
//	store, err := dirstore.Open("state")
//	...
//	defer store.Close()
//
// [Open], [View], [Verify], [Repair] and [LockedError] are the names that matter.
//
// [Open] is for the one process that writes, its owner. [View] reads beside the owner. [Verify]
// reads every byte and reports what is not intact. The directory has these files:
//
//	<dir>/lock                                   is locked, and names the owner
//	<dir>/journal/00000001.wal                   one write-ahead log for all trees, and for lines
//	<dir>/journal/closed.wal                     how long that log was when it was closed
//	<dir>/journal/idle/3f/3f9a....wal            a tree that is never due
//	<dir>/journal/members/00000007.idx           leads from a session to its idle tree
//	<dir>/sessions/<agent>/<session id>.jsonl    a transcript, to tail and grep
//	        ....jsonl.deleted.<timestamp>        an archived transcript
//	        <session id>~<hash>.files/<sha256>   a kept file of the transcript
//	        ....files.deleted.<timestamp>/       the files of an archived transcript
//	*.torn.<offset>[.<n>]                        what was cut off, for a person
//	*.tmp                                        not complete when its process died
//
// A line of a transcript is JSON. One that goes on the append of the line before begins with a
// space. What a turn has written that a crash has cut off stays in the file: the note behind it
// says in its field discard how far that counts.
//
// The files of a transcript are in a directory whose name always has the hash of key and session
// id, because two sessions may have one session id. A file gets its name when it is whole and on
// the disk.
//
// The log is compacted as it grows. Idle trees move out of it then and are read on demand. So do
// the keys of their sub-agents, into sorted files that merge: however many idle trees there are, a
// key is found with a few reads, and opening reads none of them. The next process that writes
// beside a file *.tmp removes it.
//
// # Who may read it
//
// Files are for the user alone: they have the permissions 0600, directories 0700. Open takes wider
// permissions away from the directory and its parts, and the Store does so on every level below
// before it uses a directory or a file. What cannot be mended is refused with an *[UnsafeError]
// that names the path: a directory or file of another user, and a directory with wider permissions
// that holds more than a Store. No symbolic link below the path of the directory is followed. The
// lock, the log, each transcript and each kept file must be a regular file, and what is written to
// must have one name. What is not used stays as it is, such as an archived transcript. [View] and
// [Verify] change no permissions.
//
// What is stored is not masked and not encrypted. The journal, the transcripts and the kept files
// have every message, tool argument, tool result and task as it was, with the passwords and tokens
// in it. A model needs them as they were. Package announce masks credentials in what people are
// shown, as far as its function Redact is called for it. That changes nothing here, so a backup of
// the directory is as secret as the directory. A secret that must not be stored is not put into a
// message, a task or the result of a tool.
//
// # What is promised
//
// Acknowledged data survive. Everything that a method has acknowledged is there after the process
// was killed or the power was lost, as far as the disk reports its syncs truthfully. Windows is an
// exception: it cannot be asked whether a name is on the disk. A power failure there may take names
// that are only moments old, and the files with them.
//
// A directory has one owner. Another Open returns a *[LockedError] that names the owner. The lock
// ends with its process, however that ends. Open needs a system that can lock files: Linux, macOS,
// the BSDs, Windows. View works on every system.
//
// Nothing that is done to the file lock gives a directory two owners. The owner has locked the
// journal directory as well, and looks for its lock file before and after each write. Once the file
// was removed or replaced, the Store acknowledges nothing more, and every change is a *[LostError].
// The same holds for a directory that was renamed, removed or replaced while it was open. An
// earlier version of this package looks at the file alone. Beside such a version, or on a file
// system that cannot lock directories, a removed lock file lets a second process in, and the first
// one stops at its next write. So do not remove the file: a lock without an owner is free.
//
// A failure of the disk passes. Appends fail while the disk is full, not mounted or out of reach,
// and succeed again afterwards. Only a [session.ErrSync] stays until the directory is opened again:
// one of the log for all that is written, one of a file for its transcript. A LostError is one.
// [session.Store.Health] returns the errors that no append has returned, for example why the last
// compaction of the log failed.
//
// Concurrent appends to different trees and transcripts share one sync of the disk. Lines are
// durable once they are in the log:
//
//	Append -> log, synced in a group -> about a second later: the file -> before a compaction of
//	          the log: the file, synced
//
// While the directory is open, the log is longer than what it has: it keeps 64 to 256 KiB of zeros
// free, in which it writes without making the file longer. Close cuts them off.
//
// A backup is a copy of a directory that is closed. A copy of one that is open has what was there
// when it was begun, unless a compaction came meanwhile: then it may lack lines, or not open. A
// copy is whole if the name of the log is after it what it was before, and [Verify] has no error.
//
// The Transcripts of Open is a [session.Carrier]: lines that may wait for a batch of their tree go
// to the log in the same write as the batch, and the log has both or neither.
//
// So a file lacks the lines of the last second or two while its directory is open. Close leaves
// every file whole, as far as the disk lets it: what it cannot write stays in the log. After a kill
// or a loss of power, Open has the lines in the log, and writes them to the file before anything
// else is done with the transcript; View and Verify read the file and the log as one. Lines that
// cannot be written to their file stay in the log: Health says why, and appends fail for that
// reason until they can. Lines that do not join the file any more, because another program has cut
// it, are put beside it as .torn. An append of more than 64 KiB, and the first one to a transcript
// that an earlier process has left, go to the file at once.
//
// A Put that is cut off, by an error, a full disk or the end of the process, leaves nothing under a
// name. What it leaves under a temporary name goes when a later process puts a file for the same
// transcript, and with Remove.
//
// # Rot
//
// A crash leaves at most data at the end of a file that were never acknowledged. They are cut off,
// and kept in a .torn file if they are more than the head of a frame or a part of a line.
// Acknowledged data that the disk has changed or lost are a *[session.CorruptError] with file and
// offset. Open returns that of the log. A call that reads an idle tree or a transcript, or would
// append to it, returns that of its file. A file that a newer version has written is
// [session.ErrFormat]. A directory that lost its log is a *[MissingLogError] for tools that look.
//
// No file is read on when the ctx of a call is done, nor a line of a transcript beyond the 64 MiB
// that an append may leave, however long a file is: the line is damage.
//
// The Transcripts of Open is a [session.Mender]: it can put the damaged lines of a transcript
// aside, in a .torn file, and package agent has it do so. All other lines stay, at their positions.
// A kept file whose bytes have changed is a *[session.CorruptError] of the reader before its end. A
// Put of the right bytes replaces it.
// [Repair] puts aside whatever is damaged in a directory, and keeps each tree up to its last whole
// batch. After a damage of the journal it leaves a [session.RepairMark], so that no delivery gets
// the key of one that was lost. [ViewIntact] reads what Repair would keep.
//
// # What is not promised
//
// Verify cannot see
//
//   - rot in the last groups of a log that was not closed, or in the last write of a transcript, if
//     it looks like what a crash leaves, and that the end of a transcript was cut off. The journal
//     knows how long a transcript is, and package agent says that lines are lost;
//   - a letter of a transcript that has become another one: the lines have no checksum, because
//     they are made to be read with other tools;
//   - that a kept file was removed: a line that names it cannot load it. Package agent knows which
//     files lines name;
//   - that the file of an idle tree or of a transcript was removed: the tree or the transcript
//     begins anew then. Open refuses a directory whose log is missing if something tells that it
//     was there: the file closed.wal, or an idle log;
//   - that the directory is an older copy of itself. A program that restores one calls
//     [session.MarkRepaired] before the bot runs.
//
// # Where to begin
//
// store.go opens the two parts of a Store. lock.go takes the directory, and hold.go knows whether
// it is still held. Then read the journal: journal.go has the index of the log, append.go and
// read.go use it, compact.go moves idle trees to the files of idle.go, and batch.go has the bytes
// of a batch. The transcripts are next: transcripts.go knows which there are, transcriptwrite.go
// creates them and appends to them, and transcriptfile.go reads one file and finds its end after a
// crash. placed.go has those that were copied from another Store, and list.go says what there is.
// lines.go has the lines that are in the log, carry.go those that wait for a batch, linefile.go
// brings them to their files, and lineview.go shows both as one. files.go opens, archives and
// removes the kept files, and filewrite.go writes them. mend.go puts damaged lines aside. verify.go
// reads everything, salvage.go what is intact of a damaged journal, members.go finds trees by their
// sessions, missing.go what a missing log means, and repair.go repairs a directory.
package dirstore
