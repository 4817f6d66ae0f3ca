// Package wal keeps one write-ahead log. A payload is durable once [Log.Append] has returned, and
// [Open] replays all payloads in their order.
//
//	<dir>/00000007.wal              the log; the file with the highest number counts
//	<dir>/00000008.wal.tmp          a rewrite that is under way, or whose process died
//	<dir>/closed.wal                how long the log was when it was closed
//	<dir>/00000007.wal.torn.<off>   what Open has cut off, for a person
//
//	file    header frame...
//	header  magic | version | random id | reserved | CRC of the header
//	frame   CRC of the frame's head | version kind flags | length | CRC of the payload
//	        | id of the file | offset of the frame | synced | payload
//
// Open is for the one owner of the directory. [OpenView] reads beside the owner. [WriteFile] and
// [ReadFile] use the same frames for a file that is written once.
//
// # Where to begin
//
// log.go opens the Log and appends groups to it. room.go has what it keeps free behind them.
// frame.go has the bytes of a frame, and scan.go reads a file frame by frame and tells a torn tail
// from rot. mark.go has the length of a closed log. file.go writes complete files. rewrite.go
// compacts the Log, and view.go reads frames by their places.
//
// # Torn tails and rot
//
// A frame has the id of its file and its own offset, so no bytes within a payload can be taken for
// a frame. Synced is the offset up to which the file was durable when the frame was written. It
// tells a torn tail from rot.
//
// The frame at an offset may be broken while a later frame says that the file was durable beyond
// that offset. Then the disk has changed what was acknowledged, and Open returns a [CorruptError].
// The later frame may stand at another offset than its own. Then bytes were removed or inserted
// before it, by an editor or by a copy that went wrong. A payload that has a copy of earlier frames
// proves nothing, because these do not claim what came after them.
//
// If no later frame says so, the broken part was never acknowledged, or it is the last group and
// cannot be told from a torn one. Open saves that part in a .torn file and cuts it off.
//
// A log that was closed ends with a seal. The seal is a frame without a payload that says that
// everything before it is durable. The file closed.wal says how long the log was then, so a log
// that has lost its end is told from a shorter one.
//
// # Durability
//
// Appends that come at the same time share one write and one sync. The Log cuts off what a failed
// write has left, and goes on as soon as that succeeds.
//
// A log that is open has room behind its end: zeros, in whose place the next frames are written. So
// most syncs do not make the file longer, which would cost a file system a commit of its own
// journal. The log ends before the zeros, for a reader beside the owner, too. Close cuts them off,
// and so does Open after a crash. A disk that has no place for room has a log without it.
//
// After a failed sync, the content of the disk is unknown, and another sync could report success
// falsely. Every later Append fails with [ErrSync] until the log is opened again. Open writes the
// part that no frame proves durable once more before it relies on it.
//
// [Log.Rewrite] compacts the log. It writes a new file under the next number, with everything that
// was appended meanwhile. The file is complete and durable before it gets its name. At that moment
// both files have the same content, so it does not matter which of them a crash leaves.
package wal
