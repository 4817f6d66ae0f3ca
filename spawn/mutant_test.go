package spawn_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A mutant breaks one rule by one change of the code. The test that it names must fail then. A rule
// whose test passes without it is not tested.
type mutant struct {
	rule     string // what is broken, by the number of the invariant where there is one
	file     string
	old, new string
	pkg, run string // the test that catches it
}

// mutants are all of them.
var mutants = slices.Concat(
	shellMutants, treeMutants, resetMutants, archiveMutants, requestMutants, bindMutants,
	roomMutants, repairMutants, hookMutants, agentMutants, nameMutants, stepMutants,
	depositMutants, eventMutants, collectMutants, senderMutants, sentMutants,
	targetMutants, rulesMutants, followUpMutants, threadMutants, clusterMutants,
	lineMutants,
)

// shellMutants are those of this package and of what owns a tree.
var shellMutants = []mutant{
	{
		"what has arrived is noted before the next call", "sender.go",
		"\tg.HandOver() // the call may take its time\n", "", ".",
		"TestArrivalIsNotedWhileTheNextDeliveryHangs",
	},
	{
		"a turn does not wait for the next round of its owner", "internal/owner/owner.go",
		"\t\to.handOver()\n\t\to.step(batch)", "\t\to.step(batch)", ".",
		"TestTurnBeginsWhileTheNextAppendHangs",
	},
	{
		"a turn does not wait for a snapshot", "internal/owner/journal.go",
		"\to.handOver()\n", "", ".", "TestTurnBeginsWhileACompactionHangs",
	},
	{
		"a delivery does not wait for Config.Rested", "treeshell.go",
		"\t\t\t\ton.HandOver()\n", "", ".", "TestDeliveryBeginsWhileRestedHangs",
	},
	{
		"what follows a turn does not end with its goroutine", "worker.go",
		"exit() {\n\tg.HandOver()\n", "exit() {\n", ".", "TestWhatFollowsTheEndOfAGoroutine",
	},
	{
		"a start that its owner has not acted on has not begun", "internal/owner/unacted.go",
		"turnsOf(unacted, last.Batch))", "nil)", ".", "TestStartThatItsOwnerDidNotLearnOf",
	},
	{
		"what a shutdown has cut is said with the last word", "lifecycle.go",
		"\t\t\tsaid = sh.turnsLeft()\n", "\t\t\t_ = sh.turnsLeft()\n", ".",
		"TestNoteOfAShutdownThatHangs",
	},
	{
		"a message whose turn a shutdown has cut has had no attempt", "internal/tree/settle.go",
		"\t\tif r, err := t.runInTurn(turn.Run, turn.N); err == nil && !r.Open.Shutdown {\n",
		"\t\tif r, err := t.runInTurn(turn.Run, turn.N); err == nil && r.Open.Shutdown {\n", ".",
		"TestNoteOfAShutdownThatHangs",
	},
	{
		"a dead journal is not asked what it has", "internal/owner/journal.go",
		"case Dead(err): //", "case false: //", "../agent", "TestEveryCommandThatMeetsADeadJournal",
	},
	{
		"a start that its owner has not acted on has not begun", "internal/owner/owner.go",
		"o.keepUnacted(last.Batch),", "nil,", ".", "TestStartThatItsOwnerDidNotLearnOf",
	},
	{
		"a start that its owner has acted on has begun", "internal/owner/unacted.go",
		"return keep == nil || !keep(u)", "return false",
		"./internal/owner", "TestTurnThatBeganIsInterrupted",
	},
	{
		"an owner that has had its last word decides nothing", "internal/owner/owner.go",
		"if o.spoken.Load() {", "if false {", "./internal/owner", "TestLastWord$",
	},
	{
		"a turn that has not begun is not an attempt", "internal/tree/settle.go",
		"\t\tif !r.Open.Shutdown {\n", "\t\tif false {\n", ".", "TestMessageWhoseTurnHasNotBegun",
	},
	{
		"1.12 what the journal has shown is not shown again", "watcher.go",
		"case e.Cursor.after(f.at) || f.at.IsZero():", "case true:", ".",
		"TestReplayMeetsLiveEvents",
	},
	{
		"1.12 what another owner has recorded is read", "watcher.go",
		"case f.linked && f.linkedTo.seq != after,", "case", ".", "TestEventsOfAnotherOwner",
	},
	{
		"1.12 the place of another journal is a gap", "replay.go",
		"end.seq != r.from.seq || end.batch != r.from.batch:", "end.seq != r.from.seq:",
		".", "TestEventsBehindACursor",
	},
	{
		"1.12 what a snapshot has replaced is a gap", "replay.go",
		"\t\t\treturn r.goOn(EventGap, end)\n", "\t\t\tr.found = true\n",
		".", "TestEventsBehindACursor",
	},
	{
		"1.12 the events of a batch are shown behind a cursor within it", "replay.go",
		"if e.Cursor.after(r.from) && r.query", "if e.Cursor.seq > r.from.seq && r.query",
		".", "TestEventsOfHistories",
	},
	{
		"1.12 a stream begins with the tree", "watcher.go",
		"\tw.addSnapshot(f, t, at)\n}", "\tf.whole = true\n}", ".", "TestEventsBeginWithTheTree",
	},
	{
		"1.12 a watcher holds a bounded number of events", "watcher.go",
		"len(w.queue)-w.head >= bounds.events ||", "", ".", "TestWatcherThatDoesNotRead",
	},
	{
		"1.12 deltas go first", "watcher.go",
		"if full() && isDurable(e.Kind) {", "if false {", ".", "TestDeltasAreDroppedFirst",
	},
	{
		"1.12 filters come before the queue", "watcher.go",
		"if w.query.selects(e) && !w.push(f, e) {", "if !w.push(f, e) {", ".",
		"TestEventsAreFiltered",
	},
	{
		"1.12 a watcher of all trees forgets some", "watcher.go",
		"\t\tw.forgetFeeds()\n", "", ".", "TestEventsOfAllTrees",
	},
	{
		"R3 the first sweep looks at every tree that waits for a time", "lifecycle.go",
		"if s.lastSweep.IsZero() || now.Before(s.lastSweep) {", "if false {", ".", "TestClockWasOffBeforeARestart/a_run_to_be_archived",
	},
	{
		"1.2 of a long text the tree keeps the beginning", "result.go",
		"a.Own().Whole, a.Text = f, tree.Text(strings.Clone(head))",
		"a.Own().Whole, a.Text = f, tree.Text(strings.Clone(head+string(a.Text)[len(head):]))",
		".", "TestLongTextIsInAFile",
	},
	{
		"1.2 a text stays in the tree if it cannot be put", "result.go",
		"\t\tif f, ok := sh.putLong(rt, string(a.Text)); ok {\n",
		"\t\tif f, _ := sh.putLong(rt, string(a.Text)); true {\n", ".", "TestPutOfALongResultFails",
	},
	{
		"1.2 who waits gets the whole", "wait.go",
		"s.loadResult(ctx, &infos[i]); err", "s.loadResult(ctx, &RunInfo{Key: infos[i].Key}); err",
		".", "TestLongTextIsInAFile",
	},
	{
		"1.2 a delivery has the whole", "sender.go",
		"\tif out.Completion != nil {\n", "\tif false {\n", ".", "TestLongTextIsInAFile",
	},
	{
		"1.2 the beginning is not delivered in the place of the whole", "sender.go",
		"\t\t\treturn fmt.Errorf(\"spawn: delivery %q: %w\", out.Key, err)\n", "", ".",
		"TestLongResultThatCannotBeLoaded",
	},
	{
		"1.2 files are archived with their run", "archive.go",
		"\t\terr = files.Archive(ctx, job.ref, job.at)\n", "\t\t_ = files\n", ".",
		"TestFilesAreArchivedWithTheirRun",
	},
	{
		"R19 what an interrupted turn left is fenced off before the archive", "archive.go",
		"note := session.Fence(job.end, job.at)", "note := session.Fence(job.end+1000, job.at)",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"R19 there is one fence, however often the archive fails", "archive.go",
		"wanted = recordOf(last) != record", "wanted = true",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"R19 what is damaged is archived as it is", "archive.go",
		"session.ErrCorrupt, session.ErrFormat,\n", "session.ErrFormat,\n",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"C3 a turn is told the skills of its session", "runningturn.go",
		"t.Exhausted(r), r.Skills", "t.Exhausted(r), nil", ".", "TestSkillsOfASession",
	},
	{
		"2.8 a shutdown says that it interrupts a turn", "treeshell.go",
		"\t\t\tsh.owner.Send(gen, tree.ShutDown{})\n", "", ".", "TestShutdownIsNotACrash",
	},
	{
		"A3 a run that no goroutine could be started for is queued again", "treeshell.go",
		"\t\tsh.reportUntouched(rt)\n", "", ".", "TestRunThatNeverBeganIsQueuedAgain",
	},
	{
		"A3 a run that was cut before its Runner was called is queued again", "runningturn.go",
		"if cause := context.Cause(ctx); errors.Is(cause, ErrShutdown) {",
		"if cause := context.Cause(ctx); false {", ".", "TestTurnBehindAnotherIsQueuedAgain",
	},
	{
		"A3 what has spent is not untouched", "runningturn.go",
		"errors.Is(err, ErrUntouched) && rt.turn.Spent().IsZero() && ",
		"errors.Is(err, ErrUntouched) && ",
		".", "TestClaimToBeUntouched",
	},
	{
		"A3 a Runner has to say that it did nothing", "runningturn.go",
		"if errors.Is(err, ErrUntouched) && ", "if ", ".", "TestShutdownInterrupts",
	},
	{
		"A3 a turn of a run is not a repeat", "runningturn.go",
		"(r.IsRoot() && (r.Retry", "(true && (r.Retry", ".", "TestUntouchedRunIsQueuedAgain",
	},
	{
		"I3 a session that waits holds no slot", "turn.go",
		"\ts.paused++\n\ts.mu.Unlock()\n\ts.release()\n", "\ts.paused++\n\ts.mu.Unlock()\n", ".", "TestLaneOfOneWithFiveLevels",
	},
	{
		"I4 a turn that was cancelled before it began does not call the Runner", "runningturn.go",
		"\tif ctx.Err() != nil {\n\t\treturn out, context.Cause(ctx)\n\t}\n", "", ".", "TestTurnsOfASessionNeverOverlap",
	},
	{
		"I4 Stop says what still runs", "wait.go",
		"\tcase all && len(left) == 0:\n", "\tcase all || len(left) >= 0:\n", ".", "TestStop",
	},
	{
		"I4 Stop says what a turn has left behind", "wait.go",
		"\tleft = sh.addLeft(left, key)\n", "", "../agent", "TestCallsLeftBehindAreNamed",
	},
	{
		"I4 a turn whose Runner has returned accounts for nothing more", "runningturn.go",
		"\trt.turn.fence.passed.Store(true)\n", "", ".", "TestHistories$",
	},
	{
		"I4 a turn that was given up accounts for nothing more", "treeshell.go",
		"f.Flags&tree.FlagCut != 0 {", "false {", ".", "TestTurnThatIsOver",
	},
	{
		"1.7 a turn that is to end says how far it has come", "treeshell.go",
		"\t\trt.turn.tellReached()\n", "", "../agent", "TestTurnThatIsGivenUpLosesNothing",
	},
	{
		"I6 a Runner that ends its goroutine is reported", "runningturn.go",
		"\t\tif !returned { // the Runner ended its goroutine\n", "\t\tif !returned && false {\n", ".", "TestRunnerThatGoes",
	},
	{
		"I7 a result is what the Runner returned", "info.go",
		"Text: tree.Text(o.Result.Text),", "Text: tree.Text(string([]rune(o.Result.Text))),", ".", "TestHistories$",
	},
	{
		"R18 the tree that the journal names is asked whether it has the run", "query.go",
		"\treturn found && err == nil, err\n", "\treturn err == nil, err\n", ".", "TestRootOfUnknownSessions",
	},
	{
		"R18 a journal that fails is not one that does not know", "query.go",
		"\t\tif !yield(session.Key{}, failed) {\n\t\t\treturn\n\t\t}\n", "", ".", "TestRootOfWhileTheJournalFails",
	},
	{
		"R13 the turns of top-level sessions have a limit", "supervisor.go",
		"cfg.Rules.SessionLimit()", "1<<30+cfg.Rules.SessionLimit()", ".", "TestChatsThatWaitAfterARestart",
	},
	{
		"R13 a turn of a top-level session that waits holds no slot", "turn.go",
		"\tif t == nil {\n", "\tif t == nil || !t.Session.Parent.IsValid() {\n", ".", "TestTopLevelTurnsShareTheirSlots",
	},
	{
		"R4 the ctx of every call of Shutdown ends the soft phase", "lifecycle.go",
		"\t\ts.endSoft()\n\t\treturn s.leaveShutdown(", "\t\treturn s.leaveShutdown(", ".", "TestSecondShutdownObeysItsContext",
	},
	{
		"R4 the end of a turn or delivery does not end the soft phase", "lifecycle.go",
		"if m.endsBefore(ctx) {", "if true {", ".", "TestShutdownUntilALimitPasses",
	},
	{
		"R4 what still runs is told to Run if no call of Shutdown is there", "lifecycle.go",
		"s.untold = s.stopError", "_ = s.stopError", ".", "TestShutdownUntilALimitPasses",
	},
	{
		"what a turn says in the soft phase is delivered", "sender.go",
		"case sh.sup.timed():", "case sh.sup.active():", ".", "TestShutdownDeliversWhatTurnsSay",
	},
	{
		"R4 a Shutdown from a turn does not wait for that turn", "worker.go",
		"\tcase m.calls > 0:\n", "\tcase false:\n", ".", "TestQuitFromTurns",
	},
	{
		"R4 timeouts go on during a shutdown", "supervisor.go",
		"return state == stateRunning || state == stateDraining", "return state == stateRunning", ".", "TestTimeoutsGoOnDuringAShutdown",
	},
	{
		"R6 a function of the caller that panics refuses one spawn", "question.go",
		"if p := recover(); p != nil {", "if p := any(nil); p != nil {", ".", "TestHistories$",
	},
	{
		"I9 a call that is over holds nothing", "modelcall.go",
		"\t\tt.holds = t.expected != tree.Budget{}\n", "\t\treturn\n",
		"../agent", "TestReservationsEndWithTheirCalls",
	},
	{
		"no turn starts whose provider pauses", "supervisor.go",
		"\ts.lane.Provider = s.providerOf\n", "", "../agent", "TestLimitedProviderPauses",
	},
	{
		"a turn holds no slot while its provider pauses", "modelcall.go",
		"\tdefer t.pause()()\n", "", "../agent", "TestLimitedProviderPauses",
	},
	{
		"the end of a turn ends its pause", "modelcall.go",
		"\tctx, end := t.Within(ctx)\n\tdefer end()\n\tdefer t", "\tdefer t",
		"../agent", "TestRunnersOfTheirOwnPause",
	},
	{
		"order: a sender stops at what does not arrive", "sender.go",
		"\tdefault:\n\t\tp.stopped = true\n", "\tdefault:\n", ".", "TestOrderWithinADestination",
	},
	{
		"a call that hangs is told to the tree", "sender.go",
		"\tcase !p.orphaned:\n\t\tsh.tellHangs(p, p.call.attempt, p.more...)\n", "", ".", "TestCallThatHangs",
	},
	{
		"R7 a receiver that ends its goroutine has failed", "sender.go",
		"if !returned {", "if false && !returned {", ".", "TestOrderWithinADestination",
	},
	{
		"I19 a repair is in the keys that follow", "info.go",
		"mark := t.MarkOf(ord); mark", `mark := ""; mark`, ".", "TestKeysAndEpochsAfterARepair",
	},
	{
		"1.13 a watcher sees an answer from its beginning", "watcher.go",
		"case e.Kind == EventDelta && f.joined > e.since:", "case false:", "../agent",
		"TestDeltasBeginWithAnAnswer",
	},
	{
		"1.13 raw deltas must be asked for", "live.go",
		"\tcase DeltasShown:\n\t\treturn e.Text\n", "\tcase DeltasShown:\n\t\treturn e.raw\n", "../agent",
		"TestNoEventIsRaw",
	},
	{
		"1.13 progress is shown at a pace", "live.go",
		"case wait <= 0 && c.timer == nil:", "case true:", ".", "TestProgressIsShownAtAPace",
	},
	{
		"1.13 the last progress is shown before the end", "runningturn.go",
		"\trt.turn.progress.end(&rt.turn)\n", "", ".", "TestProgressIsShownAtAPace",
	},
	{
		"1.4 a wait ends when a person does not let the turn begin", "mail.go",
		"\t\t\taside = true\n", "", "../agent", "TestPostAndWaitEnds",
	},
	{
		"1.4 a wait does not end with the turn before", "mail.go",
		"\t\t\tw.ended = nil //", "\t\t\t//", "../agent", "TestPostAndWaitOutlivesTheTurnBefore",
	},
	{
		"1.4 a reply in the outbox is found", "mail.go",
		"if final != nil {", "if final != nil && false {",
		"../agent", "TestPostAndWaitFindsTheReplyInTheOutbox",
	},
	{
		"1.4 silence ends a wait", "mail.go",
		"w.endUnless(t, ErrSilent)", "_ = ErrSilent", "../agent", "TestPostAndWait$",
	},
	{
		"Usage of a top-level session has its model", "result.go",
		"\t\tresolved = t.shell", "\t\t_ = t.shell", ".", "TestUsageIsTheSumOfTheTurns",
	},
	{
		"Usage days begin at midnight of their zone", "usage.go",
		"x.Middle.In(sum.q.Zone)", "x.Middle", ".", "TestUsageOfDaysInEveryZone",
	},
	{
		"2.4 what a turn that was given up left before a reset is fenced off", "archive.go",
		"x.ID, session.Pos(x.Pos), timeOf(x.At), x.ID", "x.ID, session.Pos(x.Pos)+1000, timeOf(x.At), x.ID",
		"../agent", "TestResetAfterATurnWasGivenUp",
	},
	{
		"I3 a wait within a turn outlasts a journal that fails", "internal/owner/stall.go",
		"c.gen != 0 || c.await", "c.gen != 0", ".", "TestTurnWaitsWhileStalled",
	},
	{
		"I3 a slot comes back from what has left the tree", "internal/owner/owner.go",
		"\t\t\t\to.releaseSlot(c)\n\t\t\t}\n\t\t\tc.decided", "\t\t\t}\n\t\t\tc.decided", ".", "TestSlotOfWhatHasLeft",
	},
	{
		"I11 an owner that lost the tree keeps out of it", "internal/owner/owner.go",
		"case c.timer && o.lostToOther && len(o.parked) == 0, ", "case ", "./internal/owner", "TestConflictYields",
	},
	{
		"R15 a call that waits outlives a journal that fails at the opening",
		"internal/owner/await.go", "if !Recovers(err) ||", "if true ||", ".",
		"TestEveryWaitWaitsForTheStore",
	},
	{
		"I11 the last append of a former owner does no harm", "internal/owner/owner.go",
		"errors.Is(err, session.ErrConflict) && !o.noAppendYet", "errors.Is(err, session.ErrConflict)", "./internal/owner", "TestFormerOwnerWhileOpening",
	},
	{
		"I12 a panic of the journal is contained", "internal/owner/journal.go",
		"\tdefer func() { recoverValue(recover(), &err) }()\n\tseq, err := o.cfg.Journal.Append",
		"\tseq, err := o.cfg.Journal.Append", "./internal/owner", "TestAppendThatFails",
	},
	{
		"1.3 commands that a journal does not take together are recorded apart", "internal/owner/call.go",
		"i == 0 || size <= tree.MaxCommand {", "true {", ".", "TestNoLimitCannotBreakTheJournal",
	},
	{
		"R18 a batch names the runs that it admits", "internal/owner/journal.go",
		"\t\tcase tree.Admitted, tree.ReviveBegun:\n\t\t\tn++\n", "", ".", "TestRootOfAfterEveryCrash",
	},
	{
		"R18 a batch that opens a tree names its runs", "internal/owner/journal.go",
		"case tree.Opened, tree.Snapshot:", "case tree.Snapshot:", ".", "TestRootOfInOldJournals",
	},
	{
		"R18 a snapshot names the runs of the tree", "internal/owner/journal.go",
		"case tree.Opened, tree.Snapshot:", "case tree.Opened:", ".", "TestRootOfAfterASnapshot",
	},
	{
		"I16 nothing is seen of what the journal has not taken", "internal/owner/stall.go",
		"\t\ts.err = o.append(ctx, s.batch)\n\t\treturned = true\n", "\t\ts.err = nil\n\t\treturned = true\n", "./internal/owner", "TestAppendThatFailsForLong",
	},
	{
		"I16 a batch that was taken after all is not taken for another owner's", "internal/owner/journal.go",
		"case found > 0:", "case false:", "./internal/owner", "TestStalledBatchThatIsThere",
	},
	{
		"I16 nothing is done before it is durable", "internal/owner/owner.go",
		"\tb := o.batchOf(facts)\n\treturned := false\n", "\tb := o.batchOf(facts)\n\to.act(facts, effects)\n\teffects = nil\n\treturned := false\n",
		".", "TestHistories$",
	},
	{
		"the lane has a limit", "internal/owner/lane.go",
		"for l.state != laneNew && h.used < h.limit {", "for l.state != laneNew && h.used <= h.limit {", "./internal/owner", "TestLane",
	},
	{
		"R13 people come before completions", "internal/owner/lanequeue.go",
		"\t\treturn classPeople\n", "\t\treturn classOthers\n", "./internal/owner", "TestLaneOfSessions",
	},
	{
		"R4 a turn that waits gets its slot back during a shutdown", "internal/owner/lane.go",
		"for l.state != laneNew &&", "for l.state == laneOpen &&", "./internal/owner", "TestLaneOpensAndCloses",
	},
	{
		"R9 a journal that ends its goroutine has failed", "internal/owner/owner.go",
		"\t\tif exited {\n", "\t\tif exited && false {\n", "./internal/owner", "TestAppendThatFailsForAMoment",
	},
	{
		"R9 a panic of the journal is an error wherever it is asked", "internal/owner/guard.go",
		"if recoverValue(recover(), &err); err != nil {", "if recoverValue(nil, &err); err != nil {", ".", "TestStoresThatMisbehave",
	},
	{
		"a 429 pauses its provider alone", "internal/owner/lanepause.go",
		"p != nil && !p.over {", "p != nil || len(l.pauses) > 0 {", "./internal/owner", "TestPaused",
	},
	{
		"the longest pause of a provider stands", "internal/owner/lanepause.go",
		"if until.After(p.until) {", "if true {", "./internal/owner", "TestPause",
	},
	{
		"a pause has a bound", "internal/owner/lanepause.go",
		"until.After(most) {", "until.After(most) && false {", "./internal/owner", "TestPause",
	},
	{
		"tickets keep their order over a pause", "internal/owner/lanepause.go",
		"range slices.Backward(p.parked) {", "range slices.All(p.parked) {",
		"./internal/owner", "TestPaused",
	},
	{
		"a paused requester does not hold back the next", "internal/owner/lanequeue.go",
		"\t\tif t != nil {\n\t\t\treturn t\n\t\t}\n\t}\n\treturn nil\n}\n\n// remove",
		"\t\treturn t\n\t}\n\treturn nil\n}\n\n// remove", "./internal/owner", "TestPaus",
	},
	{
		"the lane goes round", "internal/owner/lanequeue.go",
		"\t\tl.next = q.next\n\t\tif q.tickets.First() == nil {\n", "\t\tif q.tickets.first == nil {\n\t\t\tl.next = q.next\n", "./internal/owner", "TestLaneIsFair",
	},
	{
		"R15 what may still be recorded is not called unrecorded", "internal/owner/call.go",
		"case absent || !c.decided:", "case true:", ".", "TestFullDiskDuringATurn",
	},
	{
		"R15 a batch is given up only where nothing is under way", "internal/owner/stall.go",
		"return o.absent && s.quiet && len(s.calls) > 0 &&", "return o.absent && len(s.calls) > 0 &&", ".", "TestFullDiskDuringATurn",
	},
	{
		"R15 a batch that the journal may have is not given up", "internal/owner/journal.go",
		"return 0, false, err\n", "return 0, true, err\n", ".", "TestShutdownOfWhatNeverRan",
	},
	{
		"a batch whose acknowledgement was lost is found", "internal/owner/journal.go",
		"case found > 0:", "case false:", "./internal/owner", "TestLostAcknowledgement",
	},
	{
		"Usage a look at a tree does not keep it in memory", "internal/owner/owner.go",
		"\tif !onlyPeeks(batch) {\n", "\tif true {\n", ".", "TestLookingAtATreeDoesNotKeepIt",
	},
}

// maxKill is how long a test may take to catch a mutant. A test that only hangs has not caught it.
const maxKill = 2 * time.Minute

// TestMutants breaks the code in a copy, once for each mutant, and expects the test that the mutant
// names to fail, by name, in time. It takes most of an hour and runs only with OFFSHOOT_MUTANTS=1;
// -run 'TestMutants/2.4' is a part of it.
func TestMutants(t *testing.T) {
	if os.Getenv("OFFSHOOT_MUTANTS") == "" {
		t.Skip("OFFSHOOT_MUTANTS is not set")
	}
	module := copyModule(t)
	passes := make(map[string]bool) // packages whose tests that mutants name have passed
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.rule, " ", "_"), func(t *testing.T) {
			if !passes[m.pkg] {
				out, err := runTests(t, module, m.pkg, testsIn(m.pkg), 10*maxKill)
				require.NoError(t, err, "%s fails as it is: %s", m.pkg, out)
				passes[m.pkg] = true
			}
			name := filepath.Join(module, "spawn", m.file)
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, 1, bytes.Count(code, []byte(m.old)), "%s must hold this exactly once: %s", m.file, m.old)
			broken := bytes.Replace(code, []byte(m.old), []byte(m.new), 1)
			require.NoError(t, os.WriteFile(name, broken, 0o644))
			defer func() { require.NoError(t, os.WriteFile(name, code, 0o644)) }()
			out, err := runTests(t, module, m.pkg, m.run, maxKill)
			require.NotContains(t, out, "no tests to run")
			require.Error(t, err, "%s passes although this is broken: %s", m.run, m.rule)
			require.Regexp(t, `(?m)^(--- FAIL: |panic: |fatal error: )`, out, "%s does not build", m.rule)
			require.NotContains(t, out, "panic: test timed out", "%s only hangs: %s", m.run, m.rule)
		})
	}
}

// testsIn returns the -run of all tests of a package that mutants name.
func testsIn(pkg string) string {
	var names []string
	for _, m := range mutants {
		if m.pkg == pkg {
			names = append(names, m.run)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "|")
}

// TestMutantsStillApply checks at every run of the tests that the mutants fit the code.
func TestMutantsStillApply(t *testing.T) {
	for _, m := range mutants {
		code, err := os.ReadFile(m.file)
		require.NoError(t, err)
		assert.Equal(t, 1, bytes.Count(code, []byte(m.old)), "%q: %s must hold this exactly once: %s", m.rule, m.file, m.old)
	}
}

// copyModule copies the module.
func copyModule(t *testing.T) string {
	t.Helper()
	module := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(rel, ".") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(module, rel), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(module, rel), data, 0o644)
	})
	require.NoError(t, err)
	return module
}

// runTests runs tests in a copy of the module. The paths of the copy are not in what is built, so
// that most of it comes from the cache.
func runTests(
	t *testing.T, module, pkg, run string, atMost time.Duration,
) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-trimpath", "-vet=off",
		"-failfast", "-ldflags=-s -w", "-timeout="+atMost.String(), "-run", run, pkg)
	cmd.Dir = filepath.Join(module, "spawn")
	cmd.Env = append(os.Environ(), "OFFSHOOT_MUTANTS=", "OFFSHOOT_SEED=", "OFFSHOOT_FUZZ=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
