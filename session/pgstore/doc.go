// Package pgstore keeps a [session.Store] in a PostgreSQL database: the journal of every tree, the
// transcripts and the kept files. It is a module of its own, on github.com/jackc/pgx/v5.
//
//	store, err := pgstore.Open(ctx, "postgres://bot@db.example/bot", pgstore.Options{})
//	...
//	defer store.Close()
//
// [Open], [OpenPool], [Options] and [LockedError] are the names that matter.
//
//	Runtime --> session.Store --+-- Journal      logs     one row a tree: its end, when it is due
//	                            |                batches  one row an append, until a snapshot
//	                            |                members  from the key of a session to its tree
//	                            +-- Transcripts  transcripts, lines
//	                            +-- Files        blobs, chunks of 1 MiB
//	                            +-- Owners       processes, taken, requests, lanes; with a Process
//
//	Append: one statement, one commit.   update logs ... where root = $1 and last = $2
//	                                     no row: another writer has appended, ErrConflict
//
// # What is promised
//
// What a method has acknowledged is committed, and a server with its usual settings has it after a
// loss of power. [Open] asks the server for its settings, and refuses one that acknowledges before
// it writes (fsync, full_page_writes or synchronous_commit are off), unless Options.TrustSync says
// that this is meant. A server that has been restored from a backup knows less than receivers do:
// the program calls [session.MarkRepaired] before the bot runs.
//
// A schema has one owner, unless Options.Process is set, see below. A second [Open] is a
// *[LockedError] that names the holder. The lock is an
// advisory lock of a connection of its own, and ends with the process, however that ends: the
// server notices at once on the same machine, and within half a minute across a network. The owner
// looks after its lock before it writes: an owner that has lost it to another process acknowledges
// nothing more, and every change is a *[LostError]. Beyond that, each append is refused unless the
// log ends where the writer believes. So two writers cannot mix what they write, whatever becomes
// of the lock.
//
// A server that restarts, is out of reach or has a full disk interrupts no bot: appends fail while
// that lasts, with an error that passes, and the caller's retries go on. A server that answers and
// refuses to write is not healthy, see [session.Store.Health]. No call waits longer for the server
// than Options.Timeout. The outcome of a write that was cut off is unknown, as the
// interface says, and the caller reads to find out.
//
// # Several processes
//
// With Options.Process the Store has [session.Owners], and several processes share the schema, each
// under a name of its own. This is experimental, as that seam is. All of them open with a Process:
// the lock of the schema is held together by those that have one, or alone by one that has none,
// and the other kind is a *[LockedError].
//
// Leases end, and trees are due, by the clock of the server. A claim stands in the row of the log.
// The append of a process whose tree another one has taken is [session.ErrConflict] from that
// moment, although the log still ends where the writer believes. A process that has not claimed a
// tree, or has released it, appends to it as ever: the end of the log decides.
//
// Requests, slots and orphans are looked for each second, or ten times in a lease if that is less.
// LISTEN and NOTIFY only say when to look earlier, so that nothing depends on them. A process has a
// connection for them, one for its lock, and four more for its calls beside those of the pool: what
// a bot writes does not hold up its heartbeat. That is one change of a row three times in a lease,
// whatever the number of its trees. Trees that are owned or idle cost nothing while they are left
// alone. A process that stands still in a transaction, stopped or cut off, holds up the others for
// a third of its lease at most: the server ends the transaction. A process that was not heard of
// for a day is forgotten, and begins anew if it comes back.
//
// # The database
//
// The tables are in a schema of their own, which Open makes, and brings up to date when a newer
// version of this package needs more: the role needs the right to create in the database, or in a
// schema that an administrator has made. Open refuses a schema of a newer version with
// [session.ErrFormat], and a database whose encoding is not UTF8. PostgreSQL 13 and later will do.
// The view conversation has the lines of all transcripts as text, for a person.
//
// Options.Shared does without the lock: behind a pooler that lends out connections for single
// transactions, such as PgBouncer, an advisory lock does not hold. The connection string then also
// has default_query_exec_mode=exec. The operator of the program sees to it that one process has the
// schema at a time: a second one is harmless to what is stored, but both fail.
//
// What is stored is not masked and not encrypted. The database has every message, tool argument
// and result as it was, with the passwords in it. Give the schema to the bot's role alone.
//
// # Where to begin
//
// schema.sql has the tables, schema2.sql those of several processes, and schema3.sql what imported
// transcripts need. store.go opens a Store,
// and hold.go knows whether it is still ours. journal.go, transcripts.go and files.go are the three
// parts, on the calls of database.go. owners.go is the fourth: package cluster of the library has
// what runs beside it, and ledger.go has what is decided at the server.
package pgstore
