// Package natsstore keeps a [session.Store] in NATS JetStream: the journal of every tree, the
// transcripts and the kept files. It is a module of its own, on github.com/nats-io/nats.go.
//
//	store, err := natsstore.Open(ctx, "nats://bot@nats.example", natsstore.Options{
//		Monitor: []string{"http://nats.example:8222"},
//	})
//	...
//	defer store.Close()
//
// [Open], [OpenConn], [Options] and [SettingError] are the names that matter.
//
//	Runtime --> session.Store --+-- Journal      <name>_log    a subject a tree: its entries
//	                            |                              beside them what leads to a log:
//	                            |                              hours in which it is due, members
//	                            +-- Transcripts  <name>_text   a subject a transcript
//	                            +-- Files                      a manifest a transcript, and chunks
//	                            +-- Owners       <name>_docs   processes, claims, requests, lanes:
//	                                                           one message a subject
//
//	Append: one message, which names the one before; the server takes it only if that is the last
//	        one of the subject. Refused: another writer has appended, ErrConflict.
//
// # What is promised
//
// What a method has acknowledged is on the disk of the server, if that has sync_interval: always,
// or on those of most of its replicas. A server acknowledges before that by default, every two
// minutes. [Open] asks each of Options.Monitor for its setting, and refuses one that would lose
// what it has acknowledged; without Monitor the program says TrustSync, and the operator sees to
// it. A server that has been restored from a backup knows less than receivers do: the program calls
// [session.MarkRepaired] before the bot runs.
//
// Two writers cannot mix what they write: each message is added behind the one that its writer
// believes to be the last, or refused. A message whose acknowledgement was lost is sent again, and
// found by a random name in it: it is added once, and its writer is told so. The server's window
// for repeated messages is not used, because it ends.
//
// A stream that was made anew under a Store is not used: the Store ends with a *[LostError]. A
// message that another program has sent again, behind others, is damage and hides none of them.
//
// All reads go to the leader of a stream, but for what stands in the middle of a long log, which
// does not change. Streams whose replicas answer reads (allow_direct) are refused, and so is what
// would have a stream forget, such as max_age.
//
// A server that restarts or is out of reach interrupts no bot: requests wait for the connection,
// for at most Options.Timeout, and then fail with [ErrTimeout], which passes. The outcome of a
// write that failed so is unknown, as the interface says, and the caller reads to find out. What
// the connection itself returns as an error counts as such a restart, unless it was ended for good.
//
// A sequence is the number of a message in its stream and the number of the entry in it, so it has
// gaps. A log or a transcript that was copied from another Store keeps the sequences or positions
// that it had there, and what is added later has the next ones. A reader that begins in the middle
// of one asks for the messages behind that twice.
//
// Package [github.com/offshoot-sdk/offshoot/session/storecopy] moves a Store into NATS and out of
// it, and the command in the directory copystore does.
//
// # Several processes
//
// With Options.Process the Store has [session.Owners], and several processes share the streams,
// each under a name of its own. This is experimental, as that seam is. Without a Process the Store
// is for one process. Beside others that have one it is refused with a *[LockedError], and they
// beside it. Two without are not kept apart: the operator of the program sees to it that one
// process has the streams at a time. A second one is harmless to what is stored, but both fail. One
// that was killed opens again at once, and counts as open for 30 seconds more.
//
// Leases end by the clock of the leader of <name>_docs, and trees are due by it, too: the servers
// of a cluster have clocks that are alike, as JetStream needs them anyhow. A claim is a document,
// and holds while its process has a lease. A process that comes back after its lease writes its
// claims again before it relies on them, so it knows which of them others have taken. The claimer
// of a tree that another process had marks the log: from then on what the other one appends is
// [session.ErrConflict], although the log ends where it believes. A tree that has no entries yet
// has no mark.
//
// Requests, slots and orphans are looked for each second, or ten times in a lease if that is less.
// Messages beside the streams only say when to look earlier, so that nothing depends on them. A
// process that serves asks the server some questions each second, whatever the number of its trees,
// and reads each new due time and claim of the others once.
//
// # The server
//
// Version 2.12 and later will do, with JetStream and a max_payload of at least 64 KiB. What is
// larger than a message is kept in parts, before the message that names them. The account of the
// bot needs the subjects <name>.> and those of the JetStream API. Give the account to the bot
// alone: what is stored is not masked and not encrypted, and has every message, tool argument and
// result as it was, with the passwords in it.
//
// # Where to begin
//
// engine.go sends requests, and stream.go has what can be asked of a stream. chain.go is what logs,
// transcripts and documents are. journal.go, transcripts.go and files.go are the three parts, and
// import.go has what a copy needs of them. members.go and requests.go have what is decided of
// several processes, on mirror.go, which follows documents; package cluster of the library has what
// runs beside it.
package natsstore
