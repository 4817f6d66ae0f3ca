package spawn_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

var mutants = []mutant{
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
		"1.12 a run that has left is described", "internal/tree/apply.go",
		"\tt.left = append(t.left, r)\n", "", ".", "TestRunThatHasLeftIsDescribed",
	},
	{
		"I1 what an interrupted turn was to read is not read", "internal/tree/apply.go",
		"if f.Flags&FlagCrashed == 0 {", "if true {", "./internal/tree", "TestScenarios/crash_top",
	},
	{
		"I1 unread completions of a run that failed move up", "internal/tree/apply.go",
		"\t\tt.sendCompletion(in.From, f)\n", "\t\tt.releaseCompletion(in)\n", ".", "TestHistories$",
	},
	{
		"I1 an input is consumed once", "internal/tree/apply.go",
		"\tt.dropInputs(r, read)\n", "", ".", "TestHistories$",
	},
	{
		"I1 a requester is told", "internal/tree/settle.go",
		"case !r.Spec.Announce, r.Quiet, p.Cause == Stopped:", "case !r.Spec.Announce, r.Quiet, p.Cause == Stopped, r.Turns > 1:",
		".", "TestHistories$",
	},
	{
		"I2 nothing runs without an owner", "internal/tree/decide.go",
		"if !r.IsRoot() && r.Cause == NoCause {", "if false {", "./internal/tree", "TestScenarios/crash_child",
	},
	{
		"I2 after opening everything is looked at", "internal/tree/decide.go",
		"\t\tt.touch(r)\n\t\tr.asked, r.slot", "\t\tr.asked, r.slot", "./internal/tree", "TestHistories",
	},
	{
		"I2 a tree with a delivery that is not blocked is due", "internal/tree/tree.go",
		"if t.UnderWay() || t.outbox.pending > 0 {", "if t.UnderWay() {", "./internal/tree", "TestScenarios/outbox_due",
	},
	{
		"R3 work in hand is due at an instant in the past", "internal/tree/tree.go",
		"\t\treturn DueNow\n", "\t\treturn time.Unix(0, t.now)\n", ".", "TestClockWasOffBeforeARestart/a_message",
	},
	{
		"R3 what waits is set right when the clock was ahead", "internal/tree/clock.go",
		"\tif by > clockSlack || far {\n", "\tif false {\n", "./internal/tree", "TestScenarios/clock",
	},
	{
		"R3 what waits is set right when the clock goes back", "internal/tree/clock.go",
		"\tif by := t.lastFact - now; by > clockSlack {\n", "\tif by := t.lastFact - now; by > clockSlack && false {\n",
		".", "TestClockJumpsInALivingProcess",
	},
	{
		"R3 the clock of a destination is set right", "internal/tree/clock.go",
		"\t\te.queue.since = min(e.queue.since, f.At)\n", "", "./internal/tree", "TestScenarios/order_clock_back",
	},
	{
		"R3 a delivery that was never tried waits for a clock that is a little behind", "internal/tree/outbox.go",
		"\tt.armQueue(q)\n", "", "./internal/tree", "TestScenarios/clock",
	},
	{
		"R3 the first sweep looks at every tree that waits for a time", "lifecycle.go",
		"if s.lastSweep.IsZero() || now.Before(s.lastSweep) {", "if false {", ".", "TestClockWasOffBeforeARestart/a_run_to_be_archived",
	},
	{
		"R3 times of two facts are not compared", "internal/tree/join.go",
		"t.batches > r.startedIn", "c.Ended > r.Open.Started", ".", "TestClockJumpsInALivingProcess/a_silent_end",
	},
	{
		"1.2 of a long text the tree keeps the beginning", "result.go",
		"a.Whole, a.Text = f, tree.Text(strings.Clone(text.Cut(string(a.Text), resultHead)))",
		"a.Whole, a.Text = f, tree.Text(text.Cut(string(a.Text), len(a.Text)))",
		".", "TestLongTextIsInAFile",
	},
	{
		"1.2 a text stays in the tree if it cannot be put", "result.go",
		"\t\tif f, ok := sh.putLong(rt, string(a.Text)); ok {\n",
		"\t\tif f, _ := sh.putLong(rt, string(a.Text)); true {\n", ".", "TestPutOfALongResultFails",
	},
	{
		"1.2 who waits gets the whole", "wait.go",
		"sh.loadResult(ctx, &infos[i]); err", "sh.loadResult(ctx, &RunInfo{Key: infos[i].Key}); err",
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
		"1.2 files are archived with their run", "treeshell.go",
		"\t\terr = files.Archive(ctx, ref, at)\n", "\t\t_ = files\n", ".",
		"TestFilesAreArchivedWithTheirRun",
	},
	{
		"R19 what an interrupted turn left is fenced off before the archive", "treeshell.go",
		"err == nil && last.Pos > end && !isFence", "err == nil && last.Pos > end+1000 && !isFence",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"R19 there is one fence, however often the archive fails", "treeshell.go",
		"last.Pos > end && !isFence {", "last.Pos > end && (!isFence || true) {",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"R19 what is damaged is archived as it is", "treeshell.go",
		"session.ErrCorrupt, session.ErrFormat,\n", "session.ErrFormat,\n",
		"../agent", "TestHistoryOfAnInterruptedRun",
	},
	{
		"R11 a timeout may be for ever", "internal/tree/decide.go",
		"deadline = sat.Add(t.now, r.Spec.Timeout)", "deadline = t.now + r.Spec.Timeout + sat.Add[int64](0, 0)", "../agent", "TestDurationsAtTheirExtremes",
	},
	{
		"R11 an archive may be for ever", "internal/tree/timers.go",
		"sat.Add(r.archiveFrom(), int64(t.opt.ArchiveAfter))", "r.archiveFrom()+int64(t.opt.ArchiveAfter)", "../agent", "TestDurationsAtTheirExtremes",
	},
	{
		"D3 what models spawn is limited for each request", "../policy/admit.go",
		"\tcase byModel && r.MaxRunsPerRequest() != Off", "\tcase false && r.MaxRunsPerRequest() != Off", "../agent", "TestSpawnLoopOfAModel",
	},
	{
		"D3 what answers a delivery belongs to the request of its run", "../agent/sessiontools.go",
		"cmp.Or(answered, h.token)", "cmp.Or(h.token, answered)", "../agent", "TestSpawnLoopOfACaller",
	},
	{
		"D3 a completion belongs to the request of its run", "internal/tree/request.go",
		"\t\t\t\tchild, begun = requestOf(c), c\n", "\t\t\t\tchild, begun = c.Spec.ID, c\n", "../agent", "TestSpawnLoopOfAModel/flat",
	},
	{
		"D3 what begins a request keeps its count", "internal/tree/request.go",
		"\t\t\tt.keepBegun(r.Parent)\n", "", "./internal/tree", "TestRequestsAreKept",
	},
	{
		"D3 what begins a request keeps its count over a restart", "internal/tree/request.go",
		"\t\tif _, ok := t.requests[r.Spec.ID]; ok {\n", "\t\tif false {\n", "./internal/tree", "TestRequestsAreKept",
	},
	{
		"D3 what is spawned belongs to the request of its requester", "internal/tree/request.go",
		"\tcase !parent.IsRoot():\n\t\treturn requestOf(parent)\n", "\tcase !parent.IsRoot():\n\t\treturn \"\"\n", "./internal/tree", "TestScenarios/request",
	},
	{
		"D3 a snapshot counts on", "internal/tree/image.go",
		"\tt.restoreRequests(m)\n", "", "./internal/tree", "TestScenarios/request",
	},
	{
		"S3 another request under a key is refused", "internal/tree/digest.go",
		`if ref.Digest == "" || ref.Digest == c.digest() {`, `if true {`, "../agent", "TestKeyOfAnotherRequest",
	},
	{
		"S3 the digest outlives its run", "internal/tree/image.go",
		"spawnRef{s.Run, s.ID, s.Digest, s.Until}", `spawnRef{s.Run, s.ID, "", s.Until}`, "./internal/tree", "TestScenarios/spawn_key_other",
	},
	{
		"S3 the calls of each response are other calls", "../agent/loop.go",
		"\tcase step > 0:\n", "\tcase false:\n", "../agent", "TestToolCallIDsOfEachResponse",
	},
	{
		"2.7 a wait for all fixes its members", "internal/tree/join.go",
		"\t\t\t\tw.Keys = append(w.Keys, c.Key())\n", "", "./internal/tree", "TestScenarios/join_later",
	},
	{
		"C3 a session keeps the first skills that it takes", "internal/tree/skills.go",
		"\tif r.Skills != nil {\n", "\tif false {\n", "./internal/tree", "TestScenarios/skills",
	},
	{
		"C3 the skills of a session outlive its process", "internal/tree/apply.go",
		"\t\tr.Skills = f.Skills\n", "\t\tr.Skills = nil\n", "./internal/tree", "TestScenarios/skills",
	},
	{
		"C3 a turn is told the skills of its session", "runningturn.go",
		"t.Exhausted(r), r.Skills", "t.Exhausted(r), nil", ".", "TestSkillsOfASession",
	},
	{
		"C3 a session lists what it took", "../agent/skills.go",
		"\t\ttaken = refsOf(kept)\n", "\t\t_ = refsOf(kept)\n", "../agent", "TestSkillsOfASessionStay",
	},
	{
		"C3 the rules of today filter skills", "../agent/config.go",
		"in.Spec = c.onlySkills(key, spec)", "in.Spec = spec", "../agent", "TestSkillsThatSessionsSee",
	},
	{
		"2.8 a turn that crashed is owed", "internal/tree/settle.go",
		"\tcase r.Retry:\n", "\tcase false:\n", ".", "TestCrashedTurnWithoutInputsIsOwed",
	},
	{
		"2.8 a message that kills the process is given up", "internal/tree/decide.go",
		"len(r.Crashes) < maxAttempts-1 {", "true {", ".", "TestMessageThatKillsTheProcess",
	},
	{
		"2.8 an input has three attempts of its own", "internal/tree/decide.go",
		"f.Ord = r.Crashes[len(r.Crashes)-(maxAttempts-1)]", "f.Ord = r.Open.Through", "./internal/tree", "TestScenarios/crash_thrice",
	},
	{
		"2.8 a shutdown is not an attempt", "internal/tree/apply.go",
		"\tif !open.Shutdown {\n", "\tif true {\n", "./internal/tree", "TestScenarios/crash_thrice",
	},
	{
		"2.8 a shutdown says that it interrupts a turn", "treeshell.go",
		"\t\t\tsh.owner.Send(rt.turn.gen, tree.ShutDown{})\n", "", ".", "TestShutdownIsNotACrash",
	},
	{
		"a run that has asked for a slot may run out of time", "internal/tree/settle.go",
		"\t\tt.armTimer(r) // it may run out of time before it has a slot\n", "", "./internal/tree", "TestScenarios/timeout_queued",
	},
	{
		"I3 a failure ends a wait too", "internal/tree/join.go",
		"\tif j.Left > 0 {\n", "\tif j.Left > 0 && end == OK {\n", "./internal/tree", "TestScenarios/join_all",
	},
	{
		"I3 a child named twice is waited for once", "internal/tree/join.go",
		"slices.Compact(slices.SortedFunc(slices.Values(j.Keys), compareKeys))", "slices.SortedFunc(slices.Values(j.Keys), compareKeys)",
		"./internal/tree", "TestScenarios/join_twice",
	},
	{
		"I3 a silent end just before the wait begins counts too", "internal/tree/decide.go",
		"w.Left > 0 || t.missedEnd(r, c.Yield)", "w.Left > 0", "./internal/tree", "TestScenarios/join_missed",
	},
	{
		"I3 one that ended well without a word counts for a parent that waits for one", "internal/tree/join.go",
		"if w.Need > 0 && r.Open != nil {", "if false {", ".", "TestSilentMemberCounts",
	},
	{
		"I3 a wait within a turn outlasts a journal that fails", "internal/owner/stall.go",
		"c.gen != 0 || c.await", "c.gen != 0", ".", "TestTurnWaitsWhileStalled",
	},
	{
		"I3 a session that waits holds no slot", "turn.go",
		"\ts.paused++\n\ts.mu.Unlock()\n\ts.release()\n", "\ts.paused++\n\ts.mu.Unlock()\n", ".", "TestLaneOfOneWithFiveLevels",
	},
	{
		"I3 a slot comes back from what has left the tree", "internal/owner/owner.go",
		"\t\t\t\to.releaseSlot(c)\n\t\t\t}\n\t\t\tc.decided", "\t\t\t}\n\t\t\tc.decided", ".", "TestSlotOfWhatHasLeft",
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
		"I4 what is being stopped admits nothing", "internal/tree/decide.go",
		"\tcase parent.Cause != NoCause:\n", "\tcase false:\n", ".", "TestHistories$",
	},
	{
		"I4 descendants are stopped", "internal/tree/settle.go",
		"\t\t\tif c.Cause == NoCause {\n", "\t\t\tif c.Cause == NoCause && c.Open == nil {\n", "./internal/tree", "TestScenarios/stop",
	},
	{
		"I4 a turn whose Runner has returned accounts for nothing more", "runningturn.go",
		"\trt.turn.fence.passed.Store(true)\n", "", ".", "TestHistories$",
	},
	{
		"I4 a turn that was cancelled begins nothing", "internal/tree/decide.go",
		"case r.TurnCancelled || r.Cause != NoCause:", "case false:", "./internal/tree", "TestTurnThatEnds",
	},
	{
		"I4 a turn that was given up accounts for nothing more", "treeshell.go",
		"f.Flags&tree.FlagCut != 0 {", "false {", ".", "TestTurnThatIsOver",
	},
	{
		"I4 a turn of an agent spawns for itself", "../agent/turn.go",
		"\tif err := t.err(); err != nil {\n\t\treturn info, err\n\t}\n\tinfo, err = t.spawn.Spawn(ctx, q)\n",
		"\tinfo, err = t.rt.sup.Spawn(ctx, t.Session.Root, t.Session.Key, q)\n", "../agent", "TestNothingOutlivesItsTurn",
	},
	{
		"1.7 what a turn has read that is given up is in the conversation", "internal/tree/settle.go",
		"\t\tf.Num = reached.pos\n", "", "../agent", "TestTurnThatIsGivenUpLosesNothing",
	},
	{
		"1.7 a turn that is to end says how far it has come", "treeshell.go",
		"\t\trt.turn.tellReached()\n", "", "../agent", "TestTurnThatIsGivenUpLosesNothing",
	},
	{
		"1.7 what a turn has not written is not read", "internal/tree/settle.go",
		"read < r.Open.Through {", "read < 0 {", "../agent", "TestTurnThatIsGivenUpBeforeItHasWritten",
	},
	{
		"1.7 what a turn has not written starts no turn", "internal/tree/apply.go",
		"\t\tr.Aside = open.Through\n", "", "../agent", "TestTurnThatIsGivenUpBeforeItHasWritten",
	},
	{
		"I5 a child gets what its parent may hand down", "internal/tree/decide.go",
		"Delegable: now.Delegable, Sandboxed: now.Sandboxed,", "Delegable: t.Authority(t.root).Delegable, Sandboxed: now.Sandboxed,", ".", "TestHistories$",
	},
	{
		"I5 what a session may hand down today bounds what is below it", "../policy/authority.go",
		"now.Tools = within(tools, above.Delegable)", "now.Tools = tools", "../agent", "TestPolicyOfTodayHoldsAlongTheLineage",
	},
	{
		"I5 a sandbox of today holds below it", "../policy/authority.go",
		"now.Sandboxed = above.Sandboxed || given.Sandboxed", "now.Sandboxed = given.Sandboxed", "../agent", "TestPolicyOfTodayHoldsAlongTheLineage",
	},
	{
		"I5 an agent that may not be spawned any more has no rights", "../policy/authority.go",
		"!p.configured() || !r.allows(&p):", "false:", "../agent", "TestPolicyOfTodayHoldsAlongTheLineage",
	},
	{
		"I5 rights are folded from the top", "internal/tree/rights.go",
		"\t\treturn rightsUnder(rules, *t.Authority(r.Parent), r.Spec)\n", "\t\treturn rightsUnder(rules, r.Parent.Spec.Authority(), r.Spec)\n", "../agent", "TestPolicyOfTodayHoldsAlongTheLineage",
	},
	{
		"I6 the first cause wins", "internal/tree/decide.go",
		"if r.State.Terminal() || r.Cause != NoCause || r.IsRoot()", "if r.State.Terminal() || r.IsRoot()", "./internal/tree", "TestScenarios/first_cause",
	},
	{
		"I6 partial results are kept", "internal/tree/apply.go",
		"\tt.applyAnswer(r, f)\n", "\tif r.Cause == NoCause {\n\t\tt.applyAnswer(r, f)\n\t}\n", "./internal/tree", "TestScenarios/first_cause",
	},
	{
		"I6 a Runner that ends its goroutine is reported", "runningturn.go",
		"\t\tif !returned { // the Runner ended its goroutine\n", "\t\tif !returned && false {\n", ".", "TestRunnerThatGoes",
	},
	{
		"1.7 a call without a result gets one when the turn ends", "../agent/record.go",
		"r.write(ctx, true, answer...)", "r.write(ctx, false, answer...)",
		"../agent", "TestTurnCancelledInATool",
	},
	{
		"1.7 a call without a result gets one before the next turn", "../agent/record.go",
		"r.write(ctx, true, fresh...)", "r.write(ctx, false, fresh...)",
		"../agent", "TestHotHistoryOfAnOldTranscript",
	},
	{
		"1.7 a result stands behind its call", "../agent/conversation.go",
		"\tif len(c.open) > 0 {\n\t\tnext = slices", "\tif false {\n\t\tnext = slices",
		"../agent", "TestOrderOfRecords",
	},
	{
		"R12 a person is answered whatever breaks a turn off", "../agent/turnrunner.go",
		"\tcase err != nil && ctx.Err() == nil:\n\t\tout.Reply = apologyText\n", "", "../agent", "TestCallbacksThatMisbehave",
	},
	{
		"S10 what is over a limit is refused", "internal/tree/limits.go",
		"if limit < 0 || size <= limit {", "if true {", ".", "TestLimits$",
	},
	{
		"I7 a result is what the Runner returned", "info.go",
		"Text: tree.Text(o.Result.Text),", "Text: tree.Text(string([]rune(o.Result.Text))),", ".", "TestHistories$",
	},
	{
		"I7 a text survives the journal byte for byte", "internal/tree/encode.go",
		"if utf8.ValidString(string(t)) {", "if utf8.ValidString(string(t)) || true {", "./internal/tree", "TestCodecRoundTrip",
	},
	{
		"I8 an event that a model repeats does not reach a person", "../announce/echo.go",
		"isEvent := isOpen && (endsLine", "isEvent := !isOpen && (endsLine", "../announce", "TestEchoesDoNotReachPeople",
	},
	{
		"D5 a stream holds what may still be a tag or a secret", "../internal/ahead/ahead.go",
		"open: !c.Final && !full,", "open: false,", "../announce", "TestStreamOfEveryFormCutEverywhere",
	},
	{
		"D5 a stream shows what the whole shows if an attack nests tags", "../announce/lexer.go",
		"if l.on && o.seen > at {", "if false {", "../announce", "FuzzStream",
	},
	{
		"I9 an interrupted turn has used what it reserved", "internal/tree/apply.go",
		"\t\tt.applyCrash(r, open, f)\n", "\t\tt.applyCrash(r, open, f)\n\t\taddCharge(r, Budget{}.Sub(open.Reserve))\n", "./internal/tree", "TestScenarios/budget_crash",
	},
	{
		"I9 what a call used beyond its reservation counts", "internal/tree/decide.go",
		"beyond := c.Used.Sub(r.Open.Reserve).positive()", "beyond := Budget{}", ".", "TestSpendBeyondTheReservation",
	},
	{
		"I9 no turn reserves more than there is", "internal/tree/budget.go",
		"return min(want, max((limit-charged)/reserveDivisor, min(1, limit-charged), 0))", "return want", "./internal/tree", "TestScenarios/budget",
	},
	{
		"I10 the requested model is recorded", "internal/tree/decide.go",
		"Asked: c.Request.Model,", `Asked: "",`, ".", "TestModelsAreRecorded",
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
		"I11 a repeat after a crash says so", "internal/tree/apply.go",
		"\t\t\te.mayRepeat = true\n", "", ".", "TestHistories$",
	},
	{
		"I11 what was sent is not called unsent", "internal/tree/decide.go",
		"handed && !slices.Contains(c.Queued, ord)", "handed && false", ".", "TestShutdownDeliversWhatTurnsSay",
	},
	{
		"I11 what was not sent is no repeat", "internal/tree/apply.go",
		"\t\te.Unsent = true\n", "", ".", "TestShutdownDeliversWhatTurnsSay",
	},
	{
		"I11 a turn that is over changes nothing", "internal/tree/decide.go",
		"case c.Turn > 0 && (parent.Open == nil || parent.Open.N != c.Turn):", "case false:", "./internal/tree", "TestTurnThatEnds",
	},
	{
		"I12 a panic of the journal is contained", "internal/owner/journal.go",
		"\tdefer func() { recoverValue(recover(), &err) }()\n\tseq, err := o.cfg.Journal.Append",
		"\tseq, err := o.cfg.Journal.Append", "./internal/owner", "TestAppendThatFails",
	},
	{
		"1.3 a command has no more texts than a journal takes", "internal/tree/limits.go",
		"\tif n <= MaxCommand {\n", "\tif true {\n", ".", "TestNoLimitCannotBreakTheJournal",
	},
	{
		"1.3 commands that a journal does not take together are recorded apart", "internal/owner/call.go",
		"i == 0 || size <= tree.MaxCommand {", "true {", ".", "TestNoLimitCannotBreakTheJournal",
	},
	{
		"R18 a batch names the runs that it admits", "internal/owner/journal.go",
		"\t\tcase tree.Admitted:\n\t\t\tn++\n", "", ".", "TestRootOfAfterEveryCrash",
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
		"R18 the tree that the journal names is asked whether it has the run", "query.go",
		"\treturn found && err == nil, err\n", "\treturn err == nil, err\n", ".", "TestRootOfUnknownSessions",
	},
	{
		"R18 a journal that fails is not one that does not know", "query.go",
		"\t\tif !yield(session.Key{}, failed) {\n\t\t\treturn\n\t\t}\n", "", ".", "TestRootOfWhileTheJournalFails",
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
		"I13 the order of tools does not change the prompt", "../context/assemble.go",
		"slices.SortFunc(list, compareTools)", "_ = compareTools", "../context", "TestToolsAreListedByName|TestStablePrefixStandsStill",
	},
	{
		"I14 the same spawn key gives the same run", "internal/tree/decide.go",
		"\tif c.Key != \"\" {\n\t\tref, ok", "\tif c.Key == \"-\" {\n\t\tref, ok", ".", "TestHistories$",
	},
	{
		"I14 a spawn key outlives its run", "internal/tree/apply.go",
		"ref.Until = sat.Add(f.At, int64(KeyWindow))", "ref.Until = sat.Add(f.At, 1)", "./internal/tree", "TestScenarios/spawn_key",
	},
	{
		"I15 a refusal says how long to wait", "internal/tree/decide.go",
		`+ "; wait " + time.Duration(wait).String()`, `+ time.Duration(wait).String()[:0]`, "./internal/tree", "TestScenarios/steer_limits",
	},
	{
		"I16 nothing is done before it is durable", "internal/owner/owner.go",
		"\tb := o.batchOf(facts)\n\treturned := false\n", "\tb := o.batchOf(facts)\n\to.act(facts, effects)\n\teffects = nil\n\treturned := false\n",
		".", "TestHistories$",
	},
	{
		"I16 a snapshot says everything", "internal/tree/image.go",
		"\t\t\tt.holdCompletion(e.Run)\n", "", "./internal/tree", "TestScenarios/outbox",
	},
	{
		"I16 only what Apply does is folded", "internal/tree/settle.go",
		"\t\tr.cascaded = true\n", "\t\tr.cascaded = true\n\t\tr.Reason += \".\"\n", "./internal/tree", "TestScenarios/stop",
	},
	{
		"I17 an end waits for the descendants", "internal/tree/settle.go",
		"\tcase r.live > 0:\n", "\tcase false:\n", "./internal/tree", "TestScenarios/stop",
	},
	{
		"the lane has a limit", "internal/owner/lane.go",
		"for l.state != laneNew && h.used < h.limit {", "for l.state != laneNew && h.used <= h.limit {", "./internal/owner", "TestLane",
	},
	{
		"R13 the turns of top-level sessions have a limit", "supervisor.go",
		"cfg.Rules.SessionLimit()", "1<<30+cfg.Rules.SessionLimit()", ".", "TestChatsThatWaitAfterARestart",
	},
	{
		"R13 people come before completions", "internal/owner/lanequeue.go",
		"\t\treturn classPeople\n", "\t\treturn classOthers\n", "./internal/owner", "TestLaneOfSessions",
	},
	{
		"R13 a person who writes meanwhile moves a session up", "internal/tree/settle.go",
		"r.IsRoot() && r.ForPeople() && !r.askedForPeople", "false", "./internal/tree", "TestScenarios/post_id",
	},
	{
		"R13 a turn of a top-level session that waits holds no slot", "turn.go",
		"\tif t == nil {\n", "\tif t == nil || !t.Session.Parent.IsValid() {\n", ".", "TestTopLevelTurnsShareTheirSlots",
	},
	{
		"R13 what a cancelled turn was to read starts no turn after a snapshot", "internal/tree/run.go",
		"through := max(r.Consumed, r.Aside)\n\tfor", "through := r.Consumed\n\tfor",
		"./internal/tree", "TestScenarios/stop_waiting",
	},
	{
		"R13 what a cancelled turn was to read is not counted twice", "internal/tree/apply.go",
		"from := max(r.Consumed, r.Aside)", "from := r.Consumed", "./internal/tree", "TestHistories",
	},
	{
		"R13 a turn that waits for its slot can be cancelled", "internal/tree/decide.go",
		"if r.IsRoot() && r.asked && r.wantsTurn(t.now) {", "if false {", "./internal/tree", "TestScenarios/stop_waiting",
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
		"R4 a turn that waits gets its slot back during a shutdown", "internal/owner/lane.go",
		"for l.state != laneNew &&", "for l.state == laneOpen &&", "./internal/owner", "TestLaneOpensAndCloses",
	},
	{
		"R6 a function of the caller that panics refuses one spawn", "question.go",
		"if p := recover(); p != nil {", "if p := any(nil); p != nil {", ".", "TestHistories$",
	},
	{
		"R6 nothing is decided before its questions are answered", "internal/tree/decide.go",
		"if open := asker.missing(); open != nil {\n\t\treturn", "if open := asker.missing(); open != nil && false {\n\t\treturn", ".", "TestCallbacksOfASpawn",
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
		"I9 calls at the same time do not count on the same rest", "internal/tree/budget.go",
		"case f.others > 0 && sat.Add(f.need, f.others) > f.left:", "case false:",
		"./internal/tree", "TestCalls",
	},
	{
		"I9 a call that is alone does not begin when nothing is left", "internal/tree/budget.go",
		"case sat.Add(f.left, f.unspent) <= 0:", "case false:", "./internal/tree", "TestCalls",
	},
	{
		"I9 what a turn has reserved is its own", "internal/tree/budget.go",
		"case sat.Add(f.left, f.unspent) <= 0:", "case f.left <= 0:", "./internal/tree", "TestCalls",
	},
	{
		"I9 a turn that ends holds nothing", "internal/tree/apply.go",
		"\tdelete(t.holds, r)\n", "", "./internal/tree", "TestCalls",
	},
	{
		"I9 a call that is over holds nothing", "modelcall.go",
		"\t\tt.holds = t.expected != tree.Budget{}\n", "\t\treturn\n",
		"../agent", "TestReservationsEndWithTheirCalls",
	},
	{
		"I9 a Loop reserves before each call", "../agent/modelcall.go",
		"\treturn t.spawn.Reserve(ctx, t.priced(model, expected()))\n",
		"\t_ = expected\n\treturn end, nil\n", "../agent", "TestTurnsAtTheSameTimeShareABudget",
	},
	{
		"a 429 pauses its provider alone", "internal/owner/lanepause.go",
		"p != nil && !p.over {", "p != nil || len(l.pauses) > 0 {", "./internal/owner", "TestPaused",
	},
	{
		"no turn starts whose provider pauses", "supervisor.go",
		"\ts.lane.Provider = s.providerOf\n", "", "../agent", "TestLimitedProviderPauses",
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
		"a turn holds no slot while its provider pauses", "modelcall.go",
		"\tdefer t.pause()()\n", "", "../agent", "TestLimitedProviderPauses",
	},
	{
		"the end of a turn ends its pause", "modelcall.go",
		"\tctx, end := t.Within(ctx)\n\tdefer end()\n\tdefer t", "\tdefer t",
		"../agent", "TestRunnersOfTheirOwnPause",
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
		"only marked errors are tried again", "../agent/modelcall.go",
		"if n >= tries || !IsRetryable(err) || ", "if n >= tries || ",
		"../agent", "TestModelCallsAreMadeAgain",
	},
	{
		"tries have an end", "../agent/modelcall.go",
		"if n >= tries || ", "if n > tries || ", "../agent", "TestModelCallsAreMadeAgain",
	},
	{
		"the lane goes round", "internal/owner/lanequeue.go",
		"\t\tl.next = q.next\n\t\tif q.tickets", "\t\tif q.tickets", "./internal/owner", "TestLaneIsFair",
	},
	{
		"a steer starts no turn of what has finished", "internal/tree/settle.go",
		"return r.nUser > 0 || r.nComp > 0\n", "return r.nUser > 0 || r.nComp > 0 || r.nControl > 0\n", "./internal/tree", "TestScenarios/steer",
	},
	{
		"a chat is compacted", "internal/tree/tree.go",
		"t.sinceSnapshot > 4*(len(t.runs)+len(t.outbox.entries))+len(t.spawned)+len(t.posts)", "t.sinceSnapshot > 4*(len(t.runs)+len(t.outbox.entries)+len(t.spawned)+len(t.posts))",
		"./internal/tree", "TestChatIsCompacted",
	},
	{
		"order: what does not arrive holds back what is behind it", "internal/tree/decide.go",
		"\t\tt.recall(q)\n", "", "./internal/tree", "TestScenarios/order",
	},
	{
		"order: a sender stops at what does not arrive", "sender.go",
		"\tdefault:\n\t\tp.stopped = true\n", "\tdefault:\n", ".", "TestOrderWithinADestination",
	},
	{
		"order: what has failed goes alone", "internal/tree/outbox.go",
		"q.flying > 0 && e.HeldBy() != nil", "false", "./internal/tree", "TestScenarios/order",
	},
	{
		"an arrival clears the clock of its destination", "internal/tree/apply.go",
		"\t\te.queue.since = 0\n", "", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"the clock of a destination runs from its first failure", "internal/tree/apply.go",
		"e.queue.since = cmp.Or(e.queue.since, f.At)", "e.queue.since = cmp.Or(f.At, e.queue.since)", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"the clock of a destination survives a snapshot", "internal/tree/image.go",
		"\t\te.queue.since = c.Since\n", "", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"after a blocked head the next gets one try", "internal/tree/apply.go",
		"\t\t\te.Blocked, e.Error, e.Due = f.At, f.Text, 0\n", "\t\t\te.Blocked, e.Error, e.Due = f.At, f.Text, 0\n\t\t\te.queue.since = 0\n",
		"./internal/tree", "TestScenarios/order_clock",
	},
	{
		"a destination is not called while a call hangs", "internal/tree/outbox.go",
		"for q.hung == 0 && q.flying <", "for q.flying <", "./internal/tree", "TestScenarios/order_hang",
	},
	{
		"what waits behind a call that hangs is blocked in the end", "internal/tree/settle.go",
		"\t\tt.mark(t.outbox.hung[ord])\n", "\t\t_ = ord\n", "./internal/tree", "TestScenarios/order_hang_long",
	},
	{
		"a call that hangs is told to the tree", "sender.go",
		"\tcase !p.orphaned:\n\t\tsh.tellHangs(p, p.call.attempt)\n", "", ".", "TestCallThatHangs",
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
		"R7 a receiver that ends its goroutine has failed", "sender.go",
		"\terr := errReceiverExited\n", "\tvar err error\n", ".", "TestOrderWithinADestination",
	},
	{
		"a batch whose acknowledgement was lost is found", "internal/owner/journal.go",
		"case found > 0:", "case false:", "./internal/owner", "TestLostAcknowledgement",
	},
	{
		"a journal begins with its first entry", "internal/tree/tree.go",
		"if t.epoch > 0 || f.Kind == Snapshot ||", "if true ||", ".", "TestJournalWithoutItsFirstEntryIsRefused",
	},
	{
		"the first owner is the first", "internal/tree/tree.go",
		"f.Kind == Opened && f.Num == 1 {", "f.Kind == Opened {", ".", "TestJournalWithoutItsFirstEntryIsRefused",
	},
	{
		"I19 a repair is in the keys that follow", "info.go",
		"mark := t.MarkOf(ord); mark", `mark := ""; mark`, ".", "TestKeysAndEpochsAfterARepair",
	},
	{
		"I19 what a repair has kept keeps its key", "internal/tree/outbox.go",
		"m := Mark{o.nextOrd + 1, id}", "m := Mark{0, id}", ".", "TestKeysAndEpochsAfterARepair",
	},
	{
		"I19 epochs grow over a repair", "internal/tree/decide.go",
		"max(t.epoch+1, c.RepairEpoch)", "t.epoch+1", ".", "TestKeysAndEpochsAfterARepair",
	},
	{
		"a model does not choose how often it is called", "internal/tree/join.go",
		"max(within, int64(least))", "max(within, int64(least)*0)", "./internal/tree", "TestScenarios/join_model",
	},
	{
		"each wait of a model takes longer", "internal/tree/apply.go",
		"\t\t\tr.Waits++\n", "", "./internal/tree", "TestScenarios/join_model",
	},
	{
		"a child that ends starts the waits of a model anew", "internal/tree/apply.go",
		"r.Waits, p.Waits = 0, 0", "r.Waits = 0", "./internal/tree", "TestScenarios/join_model",
	},
	{
		"the keys of models are not those of programs", "internal/tree/tree.go",
		"{s.Parent, s.SpawnKey, s.ByModel}", "{s.Parent, s.SpawnKey, false}", "./internal/tree",
		"TestScenarios/spawn_key_model",
	},
	{
		"the keys of models stay apart over a snapshot", "internal/tree/image.go",
		"{s.Parent, s.Key, s.ByModel}", "{s.Parent, s.Key, false}", "./internal/tree",
		"TestScenarios/spawn_key_model",
	},
	{
		"I19 marks survive a snapshot", "internal/tree/image.go",
		"t.outbox.marks = slices.Clone(m.Marks)", "t.outbox.marks = nil", "./internal/tree",
		"TestScenarios/repaired",
	},
	{
		"1.5 a text is said once under a name", "internal/tree/mail.go",
		"if r.hasSaid(c.ID, c.Num) {", "if false {", "./internal/tree", "TestScenarios/say_crash",
	},
	{
		"1.5 names are free again when the inputs are consumed", "internal/tree/apply.go",
		"\t\tr.Said = nil\n\t}\n}\n\n// applyCrash", "\t}\n}\n\n// applyCrash", "./internal/tree", "TestScenarios/say$",
	},
	{
		"1.5 what was said survives a snapshot", "internal/tree/decodeimage.go",
		"r.Said = scanList(s, (*scanner).saying)", "_ = scanList(s, (*scanner).saying)",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"1.5 a sub-agent does not speak to people", "internal/tree/mail.go",
		"\tcase !r.IsRoot():\n\t\treturn Reply{}, fmt.Errorf(\"%w: %q\", ErrNoConversation, c.Run)",
		"\tcase false:\n\t\treturn Reply{}, fmt.Errorf(\"%w: %q\", ErrNoConversation, c.Run)",
		"./internal/tree", "TestScenarios/say_who",
	},
	{
		"1.13 a milestone takes the place of the one before", "internal/tree/milestone.go",
		"\tt.dropMilestone(to, f.Run)\n", "", "./internal/tree", "TestScenarios/milestone$",
	},
	{
		"1.13 what a turn reads is not taken from it", "internal/tree/milestone.go",
		"\t\tread = to.Open.Through\n", "", "./internal/tree", "TestScenarios/milestone_crash",
	},
	{
		"1.13 a milestone starts no turn", "internal/tree/run.go",
		"\tdefault: // a milestone starts no turn\n", "\tdefault:\n\t\tr.nComp += by\n",
		"./internal/tree", "TestScenarios/milestone",
	},
	{
		"1.13 a requester that the caller runs finds no milestone", "internal/tree/milestone.go",
		" && !(p.IsRoot() && t.opt.CallerRun)", "", "./internal/tree", "TestScenarios/milestone_end",
	},
	{
		"1.13 only who asked finds milestones", "internal/tree/milestone.go",
		"p != nil && r.Spec.Milestones", "p != nil", "./internal/tree", "TestScenarios/milestone$",
	},
	{
		"1.13 a milestone that is not read leaves with its run", "internal/tree/apply.go",
		"\tt.dropMilestone(r.Parent, r.Key())\n", "", "./internal/tree", "TestScenarios/milestone_end",
	},
	{
		"1.13 a run reports 100 milestones", "internal/tree/milestone.go",
		"case r.Milestones >= MaxMilestones:", "case false:", ".", "TestReportRefuses",
	},
	{
		"1.13 milestones survive a snapshot", "internal/tree/decodeimage.go",
		"\t\tr.Milestones = s.uint32()\n", "\t\t_ = s.uint32()\n", "./internal/tree",
		"TestDecoderKnowsEveryMember",
	},
	{
		"D5 no text of an event is raw", "../agent/event.go",
		"\t\te.Text = shownText(e.Text)\n", "", "../agent", "TestNoEventIsRaw",
	},
	{
		"D5 no error of an event is raw", "../agent/event.go",
		"e.Error = shownText(e.Error); e.Error == \"\"", "e.Error == \"\"", "../agent", "TestNoEventIsRaw",
	},
	{
		"D5 what a tool answers is not raw", "../agent/event.go",
		"return StatusOK, shownHead(shownText(text.Bound(out.Text, most)))",
		"return StatusOK, shownHead(text.Bound(out.Text, most))", "../agent", "TestNoEventIsRaw",
	},
	{
		"1.13 an answer ends when a tool is called", "../agent/event.go",
		"\t\tt.deltas.end(t.spawn)\n", "", "../agent", "TestDeltasOfAnAnswer",
	},
	{
		"1.13 an answer ends with the turn", "../agent/turn.go",
		"\tt.deltas.end(t.spawn)\n\tt.gate.Lock()\n", "\tt.gate.Lock()\n", "../agent", "TestDeltasOfAnAnswer",
	},
	{
		"1.13 an answer is void when the model is asked again", "../agent/modelcall.go",
		"\tt.deltas.void(t.spawn, nil)\n", "", "../agent", "TestDeltasBeginWithAnAnswer",
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
		"a reply names all messages that its turn has read", "internal/tree/mail.go",
		"a.IDs = append(a.IDs, in.ID)", "a.IDs = []string{in.ID}", "./internal/tree", "TestScenarios/mail",
	},
	{
		"a reply has the Meta of the last message alone", "internal/tree/mail.go",
		"if a.Meta = nil; in.Mail != nil {", "if in.Mail != nil {", "./internal/tree", "TestScenarios/say$",
	},
	{
		"1.4 a message without an answer is left to the next turn", "internal/tree/mail.go",
		"r.Asked = &a", "_ = &a", "./internal/tree", "TestScenarios/asked",
	},
	{
		"1.4 a message waits no longer when no turn is to come", "internal/tree/apply.go",
		"if p.Asked != nil && !p.owesAnswer() {", "if false {", "./internal/tree", "TestScenarios/asked_ends",
	},
	{
		"the gaps of a route are filled in", "internal/tree/mail.go",
		"filled := route.Or(*stored)", "filled := *route", "./internal/tree", "TestScenarios/route_gaps",
	},
	{
		"1.6 keys begin with the first session id", "internal/tree/image.go",
		"cmp.Or(m.FirstSession, m.Runs[0].Spec.SessionID)", "m.Runs[0].Spec.SessionID",
		"./internal/tree", "TestFirstSessionStays",
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
		"Usage a run that is archived leaves what it has used", "internal/tree/apply.go",
		"\tr.Parent.inheritUsage(r)\n", "", "./internal/tree", "TestScenarios/usage",
	},
	{
		"Usage what is old is kept by days", "internal/tree/image.go",
		"\tt.coarsen(f.At)\n", "", "./internal/tree", "TestScenarios/usage",
	},
	{
		"Usage a snapshot of an earlier library counts", "internal/tree/image.go",
		"\tif r.Ledger == nil {", "\tif false {", "./internal/tree", "TestLedgerOfAnEarlierSnapshot",
	},
	{
		"Usage an image shares no row with the tree", "internal/tree/image.go",
		"\ts.Ledger = s.Ledger.clone()\n", "", "./internal/tree", "TestFoldOfLedgerKeepsImages",
	},
	{
		"Usage of several models is told apart", "internal/tree/ledger.go",
		"\tif len(a.ByModel) == 0 {\n", "\tif a.ByModel = nil; true {\n", ".", "TestUsageIsTheSumOfTheTurns",
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
		"1.10 a call is not parted from its results", "../agent/internal/window/window.go",
		"\t\tif messages[i].Role == session.MessageTool {\n\t\t\tcontinue\n\t\t}\n\t\tover :=", "\t\tover :=",
		"../agent/internal/window", "TestStart",
	},
	{
		"1.10 the prompt takes room in the window", "../agent/window.go",
		"n := sat.Add(c.Text(t.Prompt.String()), c.Text(string(t.Schema)))", "n := c.Text(string(t.Schema))",
		"../agent", "TestPromptAndToolsTakeRoom",
	},
	{
		"1.10 tools take room in the window", "../agent/window.go",
		"\tfor i := range t.Tools {\n\t\ttool := &t.Tools[i]\n\t\tn = sat.Add(n, window.PerTool)",
		"\tfor i := range t.Tools[:0] {\n\t\ttool := &t.Tools[i]\n\t\tn = sat.Add(n, window.PerTool)",
		"../agent", "TestPromptAndToolsTakeRoom",
	},
	{
		"1.10 a summary that failed is not asked for again", "../agent/compact.go",
		"\t\t\tw.failed = true\n", "", "../agent", "TestFailedSummaryIsNotAskedForAgain",
	},
	{
		"1.10 a summary that hangs is named", "../agent/summary.go",
		"context.DeadlineExceeded) && t.spawn.Leave(done) {", "context.DeadlineExceeded) {",
		"../agent", "TestSummariserThatHangsIsNamed",
	},
	{
		"Loop results stand in the order of the calls", "../agent/loop.go",
		"for c.recorded < len(c.ended) && c.ended[c.recorded] != nil {",
		"for c.recorded = i; c.recorded == i; {", "../agent", "TestResultsAreRecordedAsTheyCome",
	},
	{
		"Loop a tool that is not concurrent runs alone", "../agent/loop.go",
		"for t.isConcurrent(calls[from]) && to < len(calls)", "for to < len(calls)",
		"../agent", "TestConcurrentToolsRunTogether",
	},
	{
		"Loop what may have an effect is not tried again", "../agent/tool.go",
		"!effect.isRepeatable() || ", "", "../agent", "TestEffectDecidesAboutAnotherTry",
	},
	{
		"Loop a call that timed out is not tried again", "../agent/tool.go",
		"late || n >= maxToolTries ||", "late && false || n >= maxToolTries ||",
		"../agent", "TestCallThatTimedOutIsNotTriedAgain",
	},
	{
		"Loop an empty answer is asked for once more", "../agent/loop.go",
		"\tcase t.again:\n\t\tt.res.Text = \"\"\n\t\treturn ErrEmptyAnswer\n", "",
		"../agent", "TestEmptyAnswerIsAskedForOnceMore",
	},
	{
		"1.11 a reset waits for the turn under way", "internal/tree/settle.go",
		"\tcase r.Open != nil:\n\tcase t.settleRestart(r):\n", "\tcase t.settleRestart(r):\n\tcase r.Open != nil:\n",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"1.11 a reset is refused while a child lives", "internal/tree/reset.go",
		"\tcase r.live > 0 && r.Cause == NoCause:\n", "\tcase false:\n", "./internal/tree", "TestScenarios/reset_refused",
	},
	{
		"1.11 the turn that a reset waits for may spawn", "internal/tree/reset.go",
		"\tcase r.live > 0:\n", "\tcase r.live > 1:\n", "./internal/tree", "TestScenarios/reset_refused",
	},
	{
		"1.11 a reset begins at position 0", "internal/tree/reset.go",
		"r.Pos, r.Answer, r.Silent, r.Skills, r.Active = 0, nil", "r.Answer, r.Silent, r.Skills, r.Active = nil",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"1.11 a reset takes skills anew", "internal/tree/reset.go",
		"r.Pos, r.Answer, r.Silent, r.Skills, r.Active = 0, nil, false, nil, f.At",
		"r.Pos, r.Answer, r.Silent, r.Active = 0, nil, false, f.At", "../agent", "TestReset$",
	},
	{
		"2.4 what a reset has left is archived after a crash", "internal/tree/reset.go",
		"r.Former = append(slices.Clip(r.Former), Former{old, r.Pos, r.NextOrd, f.At})",
		"r.Former = append(r.Former, Former{old, r.Pos, r.NextOrd, f.At})[:min(int(t.epoch)-1, len(r.Former)+1)]",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 an old session is put away once", "internal/tree/reset.go",
		"\tif r.Former = r.Former[1:]; len(r.Former) == 0 {\n\t\tr.Former = nil\n\t}\n", "",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 an archive of an old session that failed is tried again", "internal/tree/reset.go",
		"\t\tt.retryArchive(r)\n", "\t\tr.archiving = false\n", "./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 files of what is still to be read are not archived", "internal/tree/reset.go",
		"return in.Ord <= r.Former[0].Ord && in.Mail.hasFiles()", "return false", "./internal/tree", "TestScenarios/reset_crash",
	},
	{
		"2.4 what a turn that was given up left before a reset is fenced off", "treeshell.go",
		"x.ID, session.Pos(x.Pos), timeOf(x.At), x.ID", "x.ID, session.Pos(x.Pos)+1000, timeOf(x.At), x.ID",
		"../agent", "TestResetAfterATurnWasGivenUp",
	},
	{
		"1.11 a picture goes with its message into the new conversation", "../agent/record.go",
		"err = r.bring(ctx, st.Former, fresh)", "err = r.bring(ctx, nil, fresh)", "../agent", "TestResetOverEveryCrash",
	},
	{
		"1.11 bytes that were put before a reset are put again", "internal/tree/decide.go",
		"case c.SessionID != \"\" && c.SessionID != r.Spec.SessionID:", "case false:", "./internal/tree", "TestScenarios/reset_crash",
	},
	{
		"1.11 a compaction does not end a wait", "internal/tree/apply.go",
		"\tif compact {\n\t\tt.armTimer(r)\n\t\treturn nil\n\t}\n", "", "./internal/tree", "TestScenarios/compaction_join",
	},
	{
		"1.11 a compaction consumes nothing", "internal/tree/reset.go",
		"turnStarted(t.now, r, r.Consumed, 0, t.reserve(r))", "turnStarted(t.now, r, r.NextOrd, 0, t.reserve(r))",
		"./internal/tree", "TestScenarios/compaction$",
	},
	{
		"1.11 a compaction comes before what is unread", "internal/tree/decide.go",
		"\tif t.startCompaction(r) {\n", "\tif r.nUser == 0 && t.startCompaction(r) {\n", "./internal/tree", "TestScenarios/compaction$",
	},
	{
		"1.11 a compaction that crashed is not an attempt", "internal/tree/decide.go",
		"\t\tif r.Open.Compact {\n\t\t\tf.Flags |= FlagCompact\n\t\t} else {", "\t\tif r.Open.Compact = false; true {",
		"./internal/tree", "TestScenarios/compaction_crash",
	},
	{
		"1.11 a compaction says nothing to people", "internal/tree/reset.go",
		"&Result{Model: a.Model, Usage: a.Usage, ByModel: a.ByModel}", "a", "./internal/tree", "TestScenarios/compaction$",
	},
	{
		"1.11 a compaction is cancelled before it begins", "internal/tree/decide.go",
		"\tif r.Open == nil {\n\t\tt.answerAll(&r.wishes.compact, ErrTurnCancelled)\n\t}\n", "",
		"./internal/tree", "TestScenarios/compaction$",
	},
	{
		"Usage a look at a tree does not keep it in memory", "internal/owner/owner.go",
		"\tif !onlyPeeks(batch) {\n", "\tif true {\n", ".", "TestLookingAtATreeDoesNotKeepIt",
	},
	{
		"Usage the end of a turn is activity", "internal/tree/apply.go",
		"r.Open, r.Grace, r.Active = nil, 0, f.At", "r.Open, r.Grace = nil, 0", ".", "TestSessionsByActivity",
	},
	{
		"Usage the price is that of the model that ran", "../agent/modelcall.go",
		"t.priced(a.Model, a.Usage)", `t.priced("", a.Usage)`, "../agent", "TestCallsHaveTheCostOfTheirModel",
	},
	{
		"Usage a cost that the caller gives stands", "../agent/usage.go",
		"if u.Cost > 0 || len(t.rt.prices) == 0 {", "if len(t.rt.prices) == 0 {", "../agent", "TestCallsHaveTheCostOfTheirModel",
	},
}

// TestMutants breaks the code in a copy, once for each mutant, and expects the test that the mutant
// names to fail. It takes a few minutes and runs only with OFFSHOOT_MUTANTS=1.
func TestMutants(t *testing.T) {
	if os.Getenv("OFFSHOOT_MUTANTS") == "" {
		t.Skip("OFFSHOOT_MUTANTS is not set")
	}
	module := copyModule(t)
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.rule, " ", "_"), func(t *testing.T) {
			name := filepath.Join(module, "spawn", m.file)
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, 1, bytes.Count(code, []byte(m.old)), "%s must hold this exactly once: %s", m.file, m.old)
			broken := bytes.Replace(code, []byte(m.old), []byte(m.new), 1)
			require.NoError(t, os.WriteFile(name, broken, 0o644))
			defer func() { require.NoError(t, os.WriteFile(name, code, 0o644)) }()
			out, err := runGo(t, module, "test", "-count=1", "-timeout=120s", "-run", m.run, m.pkg)
			require.NotContains(t, out, "[build failed]")
			require.NotContains(t, out, "no tests to run")
			require.Error(t, err, "%s passes although this is broken: %s", m.run, m.rule)
		})
	}
}

// TestMutantsStillApply checks at every run of the tests that the mutants fit the code.
func TestMutantsStillApply(t *testing.T) {
	for _, m := range mutants {
		code, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(code, []byte(m.old)), "%q: %s must hold this exactly once: %s", m.rule, m.file, m.old)
	}
}

// copyModule copies the module, and checks that the tests pass there as it is.
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
	out, err := runGo(t, module, "test", "-count=1", ".", "./internal/...", "./spawntest")
	require.NoError(t, err, "%s", out)
	return module
}

func runGo(t *testing.T, module string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join(module, "spawn")
	cmd.Env = append(os.Environ(), "OFFSHOOT_MUTANTS=", "OFFSHOOT_SEED=", "OFFSHOOT_FUZZ=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
