// Package wal keeps one write-ahead log: payloads that are durable once Append has returned, and what it takes to get them back.
//
//	<dir>/00000007.wal     the log: the highest number is the one
//	<dir>/00000008.wal.tmp a rewrite that is under way, or that died
//
//	file  = header frame...
//	header= magic, version, random id, CRC
//	frame = CRC of the rest | version kind flags | length | CRC of payload | file's id | own offset | synced | payload
//
// A frame knows which file it belongs to and where it stands, so no text inside a payload can pose as one. Synced is the offset up to
// which the file was durable when the frame was written. It is what tells a torn tail from rot: if the frame at an offset is broken and
// a later one says that it had been durable there, the disk has changed what was acknowledged, and opening is refused with a
// [CorruptError]. If none says so, nobody was ever told that the broken part is there, or it is the very last group and cannot be
// told from a torn one; it is cut off. A log that was closed ends with a seal, which says so of everything.
//
// # Durability
//
// Writers that come at the same time share one write and one sync. A write that fails is cut off again, and the log goes on as soon as that
// works. A sync that fails leaves it unknown what is on the disk, and asking again would get a lie for an answer, so that every later
// Append fails until the log is opened again; opening writes the part that nothing proves once more before it trusts it.
//
// A log is compacted by [Log.Rewrite]: a new file under the next number, complete and durable before it gets its name, with everything that was
// appended meanwhile. Both files say the same at that moment, so it does not matter which of them a crash leaves.
package wal
