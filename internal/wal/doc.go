// Package wal keeps one write-ahead log. A payload is durable once [Log.Append] has returned, and
// [Open] replays all payloads in their order.
//
//	<dir>/00000007.wal       the log; the file with the highest number counts
//	<dir>/00000008.wal.tmp   a rewrite that is under way, or whose process died
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
// log.go opens the Log and appends groups to it. frame.go has the bytes of a frame, and scan.go
// reads a file frame by frame and tells a torn tail from rot. file.go writes complete files.
// rewrite.go compacts the Log, and view.go reads frames by their places.
//
// # Torn tails and rot
//
// A frame has the id of its file and its own offset, so no bytes within a payload can be taken for
// a frame. Synced is the offset up to which the file was durable when the frame was written. It
// tells a torn tail from rot.
//
// The frame at an offset may be broken while a later frame says that the file was durable beyond
// that offset. Then the disk has changed what was acknowledged, and Open returns a [CorruptError].
// If no later frame says so, the broken part was never acknowledged, or it is the last group and
// cannot be told from a torn one. Open cuts that part off.
//
// A log that was closed ends with a seal. The seal is a frame without a payload that says that
// everything before it is durable.
//
// # Durability
//
// Appends that come at the same time share one write and one sync. The Log cuts off what a failed
// write has left, and goes on as soon as that succeeds.
//
// After a failed sync, the content of the disk is unknown, and another sync could report success
// falsely. Every later Append fails with [ErrSync] until the log is opened again. Open writes the
// part that no frame proves durable once more before it relies on it.
//
// [Log.Rewrite] compacts the log. It writes a new file under the next number, with everything that
// was appended meanwhile. The file is complete and durable before it gets its name. At that moment
// both files have the same content, so it does not matter which of them a crash leaves.
package wal
