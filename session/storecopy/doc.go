// Package storecopy moves what a [session.Store] has into another one, as from a directory into the
// engine that several processes share, and back.
//
//	report, err := storecopy.Copy(ctx, from, to, storecopy.Options{})
//
// [Copy] and [Verify] are all that a program needs. Commands are in the modules of the engines:
// session/pgstore/copystore and session/natsstore/copystore, both on package copycommand. Package
// storecopytest tests whether a Store can be copied.
//
// # What is the same
//
// A Runtime on the copy goes on as it would have gone on where the original is:
//
//	logs         every log with its entries, their sequences, their batches, and when it is due:
//	             trees, bindings, keys of deliveries, marks of repairs
//	members      the way from the key of a sub-agent to its tree
//	transcripts  every line at its position, archived ones under the time of their archive
//	files        every file that a transcript has, bytes and hash
//
// Positions are kept and not translated: journals and notes name them, and so does the
// agent.CallID by which a tool knows a call. What is written later has greater ones.
//
// A log whose engine leaves gaps between its sequences, as NATS does, or that goes into a Journal
// which is not a [session.JournalImporter], gets new sequences: then a stream of events that goes
// on behind a cursor of before begins with an EventGap. [Report].Renumbered counts these logs.
//
// # How it goes
//
//	mark --> logs --> lines and files of each transcript, then its archive --> verify --> mark
//
// The source must not change meanwhile. A directory that is open in a bot cannot be opened here,
// and a schema of PostgreSQL that a bot has is locked: the program opens both Stores, and so has
// them alone. Nothing locks the streams of NATS: the operator sees to it. A read-only view of a
// source will do if the bot has ended.
//
// The target must be empty, else the error is a *[NotEmptyError]. From the first mark on, a Runtime
// refuses the target with [session.ErrUnfinishedCopy]; the last one is written when everything was
// compared. A copy that is cut off is begun again by the same call: what is there stays, and the
// rest follows. If the source was used in between, the comparison may say so with a
// *[DifferenceError]: then the copy begins anew with an empty target.
//
// What cannot be read ends the copy, with the error of the Store that names it; nothing is left
// out. Files of which a directory does not know whose they are belong to no session that is on
// record: a process died between their Put and what names them. [Report].Unknown names them.
package storecopy
