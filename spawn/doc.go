// Package spawn runs trees of sessions: a top-level session and every sub-agent below it.
//
// A [Supervisor] admits the runs that policy allows and runs one turn of each session at a time.
// The caller brings the [Runner] that does the work of a turn. The end of every run comes back to
// the session that asked for it, over restarts too. All that happens in a tree is recorded as facts
// in one append-only journal, which one owner writes. Nothing has an effect before it is durable.
//
//	             Spawn, Post, Steer, Stop, Wait                   effects
//	                           |                                     ^
//	Supervisor                 v                                     |
//	+-- one owner for each tree -----------------------------------------------------------+
//	|   commands -> decide and apply all -> append once -> perform effects, then reply     |
//	|                    |                       |           |                             |
//	|                  tree                   journal        +-> lane     slots, in turn   |
//	|        agent:main:main                                 +-> Runner   one turn each    |
//	|          +- ...:subagent:a   running                   +-> Deliver  the outbox       |
//	|          |    +- ...:subagent:b   queued               +-> Archive  transcripts      |
//	|          +- ...:subagent:c   ok                                                      |
//	+--------------------------------------------------------------------------------------+
//
// # Where to begin
//
// A caller needs three types. [Config] names the store, the Runner and the rules (config.go).
// [Open] makes a [Supervisor] of it, which [Supervisor.Run] and [Supervisor.Shutdown] start and end
// (supervisor.go, lifecycle.go). A [Runner] gets a [TurnInput] and returns a [TurnResult]
// (runner.go, turn.go). The examples show one task each.
//
// To read the code, follow one [Supervisor.Spawn] from command.go into internal/owner, whose method
// step is one round of a tree: decide, append, act. The rules of a tree are pure functions in
// internal/tree. What they want done comes back to the treeShell (treeshell.go), which calls the
// Runner (runningturn.go) and Deliver (sender.go). Package spawntest has a scripted Runner and
// journals that fail.
//
// # Names
//
//   - A session is an inbox, a transcript, and one turn at a time. A top-level session talks to
//     people; every other session is that of a run.
//   - A run is the work of one sub-agent, from its [Request] to its [Completion]. [RunInfo] says
//     how it stands. A session may have several, one after the other: a [RunRef] names one.
//   - A turn is one call of the Runner. It consumes the inputs of its session.
//   - A tree is a top-level session, its root, and all runs below it. It has one journal.
//   - The owner of a tree is the one writer of its journal. The epoch of the tree counts
//     its owners.
//   - The lane has the slots for turns: some for those of runs, others for those of top-level
//     sessions. A session that waits holds none.
//   - The outbox has what leaves the tree: each [Delivery] is a completion or a reply.
//
// # Sessions and turns
//
// Inputs are the messages of people, the task of a run, the steers of other sessions, and the ends
// of children. A turn consumes all inputs that its session has. A session that waits for children
// holds no slot of the lane and costs no goroutine. A run ends by itself when its turn has ended
// and it has nothing left to read, no child alive and nothing to wait for.
//
// Otherwise a run ends for a cause: it failed, ran out of time, was stopped, lost its process, or
// met a limit. The first cause wins. The descendants of the run are stopped first, and the run ends
// after the last of them, so that a run that has ended has no live run below it. The text of its
// turn is kept. A turn that is cancelled and does not return is given up after a grace period.
//
// A run that has ended stays ended. A message to its session begins another run there: with an id
// of its own, and the transcript, the authority and the budget of the session. What names a run
// takes its id, and means that one whatever has followed it: [Supervisor.Wait] and
// [Supervisor.Find], a steer, an event, a completion. A session keeps its first run and the last
// ones, see [Supervisor.OwnRuns].
//
//	          the requester              who waits             the sender, if above
//	                ^                        ^                        ^
//	|---- run 1 ----|        |---- run 2 ----|        |---- run 3 ----|
//	Spawn                    Post                     Send
//
// A top-level session has no end. [Supervisor.Reset] gives it a new conversation between two turns,
// and [Supervisor.Compact] a turn that compacts the present one and reads nothing.
//
//	stateDiagram-v2
//	    [*] --> queued
//	    queued --> running
//	    queued --> stopping
//	    running --> queued
//	    running --> waiting
//	    running --> stopping
//	    waiting --> running
//	    waiting --> stopping
//	    waiting --> ok
//	    stopping --> failed
//	    stopping --> timed_out
//	    stopping --> cancelled
//	    stopping --> interrupted
//	    stopping --> incomplete
//	    ok --> [*]
//	    failed --> [*]
//	    timed_out --> [*]
//	    cancelled --> [*]
//	    interrupted --> [*]
//	    incomplete --> [*]
//
// # What is promised
//
//   - A session that Offshoot runs is told of the end of each child exactly once, whenever a
//     process crashes. It is not told of children that are stopped with the session itself.
//   - What leaves a tree is handed to [Config].Deliver at least once, and always under the same
//     key: the completions for sessions that the caller runs, and the replies to people. What goes
//     to one destination arrives in order.
//   - The same spawn key gives the same run. The same message ID is one message.
//   - When [Supervisor.Stop] has returned nil, nothing below the session is running.
//   - A panic in a Runner, in Deliver or in a store is contained, and so is runtime.Goexit in a
//     Runner and in Deliver.
//   - A journal that fails for a while loses nothing. Turns go on, and their results are recorded
//     once it takes entries again.
//
// After a crash, runs that never started are started. A run that had a turn under way is
// interrupted and its requester is told; after a [Supervisor.Shutdown] only if the turn had done
// something, see [ErrUntouched]. One that had its announce step under way, see
// [TurnInput].Announces, has ended well. A top-level session that had a turn under way gets
// another over the same inputs, marked as a retry.
//
// A turn counts as under way once its start is on record, some moments before its Runner is called.
// While the process lives, it notes of a start whose append has hung or failed that nothing has
// begun. If it dies first, or the journal takes nothing more, the next owner cannot tell such a
// turn from one that has had effects, and takes it for that.
//
// A top-level session has three attempts at an input: a message over which the process has died
// three times counts as read, and people are told so (see [Config].Apology). A turn that a
// [Supervisor.Shutdown] interrupts is not an attempt. Tools with effects may so be called up to
// three times for one message; [TurnInput].Retry tells. The log of the process that goes on has a
// WARN for each turn that was cut so, and an ERROR for messages that are given up. Of several
// processes on one store, one that has lost its lease and its trees counts as one that has died.
//
// # Errors
//
// Errors are sentinels and types, for errors.Is and errors.AsType. A call that asks for something
// is a command. Every command can return [ErrNotRecorded] and [ErrUnconfirmed], which say what a
// failing journal has kept of it. A call that only reads can return [ErrUnreadable]. A call that
// waits for something waits for a failing journal, too. It returns an error if that journal will
// never work again, or if a person must repair the tree.
//
// An append that fails is tried again for as long as a caller can be expected to wait, a second and
// a half. One is not: the first one of a tree that this process has just read. Nothing of the tree
// is under way yet, so that its caller is told at once and nothing is half done, and may ask again.
//
// Both return an *[InputError] for a root that is not the key of a top-level session, [ErrShutdown]
// after a shutdown, and the cause of a ctx that has ended before. Of a command either is
// ErrNotRecorded as well. If ctx ends during the call, a command returns an error that is
// ErrUnconfirmed and the cause, and a call that reads or waits the cause. So it is with a shutdown
// that comes to its end while the store has not answered a command: the error is ErrUnconfirmed and
// ErrShutdown, and with a command that waits for what comes of it, such as a Stop or a Reset. What
// a command reads or puts into the store before anything is sent to the journal, and a hook that it
// asks, leaves nothing behind: if the store fails, or a ctx or a shutdown ends that, the error is
// ErrNotRecorded beside the reason, which may be ErrUnreadable. The call returns when its ctx ends
// or the hard phase of a shutdown begins, also if the store does not return. So an error that the
// store, a ctx or a shutdown is the reason of says of every command exactly one of the two. What is
// wrong with the arguments of a command, or refused, is neither: the same command would fail again.
//
// A method of [TurnInput] returns an error that is [ErrStale], and why, once its turn is over or is
// to end. It waits for a failing journal until ctx ends. What else a call may return stands at the
// call.
//
// # Several processes
//
// If the Store has [session.Owners], several Supervisors share it, each in a process of its own.
// That is experimental. A tree is that of the process which has claimed it, by the first command or
// because it was due and no process had it. The process keeps it until nothing has happened in it
// for ten minutes, or the Supervisor is shut down; then, or when the process is not heard for the
// time of a lease, another one goes on with it. A process that cannot reach the engine pauses a
// second before its lease ends: no turn and no delivery begins, and the methods of a [TurnInput]
// wait. What a Runner does beside them waits by [TurnInput.MayAct]. If the process is heard again
// before another one has claimed the tree, within ten minutes, the turns go on. Else their context
// ends with [ErrUnconfirmed], as that of a tree that is lost in another way.
//
// A command for the tree of another process is done there, by the rules, the functions and the
// clock of that process, and its errors are the same for errors.Is and errors.As. While the tree
// moves from one process to another the command waits, until its ctx ends. If the process that has
// taken it dies before it has answered, the next one does it, once: a message and a spawn are known
// by their ids, and others come to the same. Those which do not, [Supervisor.CancelTurn],
// [Supervisor.Reset], [Supervisor.Compact], [Supervisor.DeleteSession], [Supervisor.Retry] and
// [Supervisor.Dismiss], are [ErrUnconfirmed] then. The files of [Supervisor.Deposit] are put by the
// process that is asked, and the deposit is that of the process that has the tree: if the one that
// puts them dies, the next owner of the tree removes them.
//
// Of an error that a function of the Config there has returned, the text crosses. A command and an
// answer have at most [session.RequestLimit] bytes as JSON, which hold every command within the
// [Limits], whatever characters it has. A caller that leaves before the answer leaves its call at
// the owner, until that is done or the deadline of ctx is over.
//
// A call that reads shows what the journal has. [Supervisor.Wait], [Supervisor.Idle], and
// [Supervisor.Events] of one tree go by the journal of a tree of another process, which they read
// each second, and go on when the tree moves from one process to another. Deltas, and what else no
// journal has, stay in the process that has the tree; what a snapshot replaces between two reads is
// a gap, see [EventGap]. What a wait leaves over is decided there. A Supervisor that does not run
// claims a tree for one command, and gives it up at once, unless a caller waits for what comes of
// it: then for one lease.
//
// The limits of turns at the same time, MaxConcurrent and that of sessions, are those of all
// processes. Each process asks the engine for a slot for at most as many sessions at a time, those
// that are next by its own queue, and the engine grants them to requesters in turn. A process that
// dies, or is not heard for the time of a lease, gives its slots up. If it still runs turns then,
// there may be more of them than the limit until their contexts have ended. A pause that a provider
// has asked of one process is one of all.
//
// # Watching a tree
//
// [Supervisor.Events] shows what happens, in one tree or in all, from the call on or behind a
// [Cursor] that a program has kept. A loop that is slow costs the trees nothing.
//
// [Supervisor.Runs] and [Supervisor.Outbox] ask the owner of a tree. [View] says the
// same from the journal alone, in any process and beside the owner. [Supervisor.Usage] and
// [Supervisor.Sessions] ask all trees, of which they leave those alone that are at rest. [Describe]
// puts one entry of the journal into words. [Settle] retries or dismisses a blocked delivery of a
// store that no Supervisor has open.
package spawn
