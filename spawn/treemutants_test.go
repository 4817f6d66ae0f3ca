package spawn_test

// treeMutants are the mutants of what decides for a tree.
var treeMutants = []mutant{
	{
		"1.12 a run that has left is described", "internal/tree/apply.go",
		"\tw.left = append(w.left, r)\n", "", ".", "TestRunThatHasLeftIsDescribed",
	},
	{
		"I1 what an interrupted turn was to read is not read", "internal/tree/apply.go",
		"case f.Flags&FlagCrashed == 0:\n\t\tt.applyRead", "case true:\n\t\tt.applyRead",
		"./internal/tree", "TestScenarios/crash_top",
	},
	{
		"A3 an untouched turn pays nothing", "internal/tree/apply.go",
		"\tt.charge(r, Budget{}.Sub(open.Reserve))\n", "", "./internal/tree", "TestScenarios/untouched$",
	},
	{
		"A3 the time of a run begins with the turn that counts", "internal/tree/apply.go",
		"\tr.Started, r.Deadline = 0, 0\n", "", "./internal/tree", "TestScenarios/untouched$",
	},
	{
		"A3 the time of a run that has had a turn goes on", "internal/tree/apply.go",
		"if r.Consumed >= r.firstOrd() {", "if false {", "./internal/tree",
		"TestScenarios/untouched_later",
	},
	{
		"A3 an untouched turn is owed", "internal/tree/apply.go",
		"\t\treturn Waiting\n\t}\n\tr.Retry = true\n", "\t\treturn Waiting\n\t}\n", "./internal/tree",
		"TestScenarios/untouched_later",
	},
	{
		"5.20 what ends with its requester is told to no one", "internal/tree/settle.go",
		"reason, grace, FlagQuiet))", "reason, grace, 0))", "./internal/tree",
		"TestWhatEndsWithItsRequesterIsNotTold",
	},
	{
		"A3 an untouched turn of a chat repeats nothing", "internal/tree/apply.go",
		"\t\tr.Retry = owed || ", "\t\tr.Retry = true || ", "../agent",
		"TestRetryIsSaidOfWhatWasEntered",
	},
	{
		"A3 an untouched turn of a chat takes back no crash", "internal/tree/apply.go",
		"\t\tr.Retry = owed || ", "\t\tr.Retry = ", "../agent",
		"TestRetryIsSaidOfWhatWasEntered",
	},
	{
		"A3 a turn of a chat that heard others is not untouched", "internal/tree/apply.go",
		"\t\tr.didWork = r.didWork || r.IsRoot() //", "\t\t//", "./internal/tree",
		"TestTurnOfAChatIsUntouched",
	},
	{
		"A3 a turn of a chat for others than its inputs say is not untouched",
		"internal/tree/decide.go", " || t.worksForInputs(r)) {", " || true) {", "./internal/tree",
		"TestHistories$",
	},
	{
		"A3 the first turn after a crash is the one that counts", "internal/tree/restart.go",
		"r.Consumed < r.firstOrd()", "r.Turns == last.Turns+1", "../agent",
		"TestRetryIsSaidOfWhatWasEntered",
	},
	{
		"A3 a turn that did something is not untouched", "internal/tree/decide.go",
		"\treturn !r.didWork && (", "\treturn (", "./internal/tree",
		"TestScenarios/untouched_refused",
	},
	{
		"A3 a turn that was cancelled is not untouched", "internal/tree/decide.go",
		"r.Open.Shutdown && r.Cause == NoCause && !r.TurnCancelled &&\n", "r.Open.Shutdown && r.Cause == NoCause &&\n",
		"./internal/tree", "TestScenarios/untouched_refused",
	},
	{
		"A3 only a shutdown leaves a turn untouched", "internal/tree/decide.go",
		"if r.Open.Shutdown && r.Cause == NoCause && !r.Turn", "if r.Cause == NoCause && !r.Turn", "./internal/tree",
		"TestScenarios/untouched_refused",
	},
	{
		"A3 to spawn is to do something", "internal/tree/apply.go",
		"\tparent.didWork = true\n", "", "./internal/tree", "TestScenarios/untouched_refused",
	},
	{
		"A3 to report is to do something", "internal/tree/apply.go",
		"\t\tr.didWork = true\n\t\treturn t.applyReported(r, f)\n",
		"\t\treturn t.applyReported(r, f)\n", "./internal/tree", "TestScenarios/untouched_refused",
	},
	{
		"A3 to spend is to do something", "internal/tree/budget.go",
		"\tr.didWork = r.didWork || c.Used != (Budget{})\n", "", "./internal/tree",
		"TestScenarios/untouched_refused",
	},
	{
		"A3 to stop a run is to do something", "internal/tree/decide.go",
		"\tr.didWork = true // also where", "\t// also where", "./internal/tree",
		"TestTurnThatDidSomethingIsNotUntouched",
	},
	{
		"I1 unread completions of a run that failed move up", "internal/tree/inbox.go",
		"\t\tt.sendCompletion(in.From, in.RunID, f)\n", "", ".", "TestHistories$",
	},
	{
		"I1 an input is consumed once", "internal/tree/apply.go",
		"\tt.dropInputs(r, read)\n", "", ".", "TestHistories$",
	},
	{
		"I1 a requester is told", "internal/tree/settle.go",
		"case !r.announces(), r.Quiet, p.Cause == Stopped,", "case !r.announces(), r.Quiet, p.Cause == Stopped, r.Turns > 1,",
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
		"R3 what waits is set right when the clock was ahead", "internal/tree/timers.go",
		"\tif by > clockSlack || far {\n", "\tif false {\n", "./internal/tree", "TestScenarios/clock",
	},
	{
		"R3 what waits is set right when the clock goes back", "internal/tree/timers.go",
		"\tif by := t.lastFact - now; by > clockSlack {\n", "\tif by := t.lastFact - now; by > clockSlack && false {\n",
		".", "TestClockJumpsInALivingProcess",
	},
	{
		"R3 the clock of a destination is set right", "internal/tree/timers.go",
		"\t\te.queue.since = min(e.queue.since, sat.Add(f.At, e.queue.longestWait()))\n", "", "./internal/tree", "TestScenarios/order_clock_back",
	},
	{
		"R3 a delivery that was never tried waits for a clock that is a little behind", "internal/tree/outbox.go",
		"\tt.armQueue(q)\n", "", "./internal/tree", "TestScenarios/clock",
	},
	{
		"R3 times of two facts are not compared", "internal/tree/join.go",
		"t.batches > r.Open.startedIn", "c.Ended > r.Open.Started", ".", "TestClockJumpsInALivingProcess/a_silent_end",
	},
	{
		"R11 a timeout may be for ever", "internal/tree/decide.go",
		"deadline = sat.Add(t.now, r.Spec.Timeout)", "deadline = t.now + r.Spec.Timeout + sat.Add[int64](0, 0)", "../agent", "TestDurationsAtTheirExtremes",
	},
	{
		"R11 an archive may be for ever", "internal/tree/archive.go",
		"sat.Add(r.archiveFrom(), int64(t.archiveAfter()))", "sat.Add(0, r.archiveFrom()+int64(t.archiveAfter()))", "../agent", "TestDurationsAtTheirExtremes",
	},
	{
		"D3 a completion belongs to the request of its run", "internal/tree/request.go",
		"child, begun, run = c.requestOf(&of), c, in.RunID", "child, begun, run = c.Spec.ID, c, of.name()", "../agent", "TestSpawnLoopOfAModel/flat",
	},
	{
		"D3 what begins a request keeps its count", "internal/tree/request.go",
		"\t\tt.keepBegun(r.Parent)\n", "", "./internal/tree", "TestRequestsAreKept",
	},
	{
		"D3 what begins a request keeps its count over a restart", "internal/tree/request.go",
		"\tif t.requests.Has(r.RunID()) {\n", "\tif false {\n", "./internal/tree", "TestRequestsAreKept",
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
		"S3 another request under a key is refused", "internal/tree/request.go",
		`if ref.Digest == "" || ref.Digest == c.digest() {`, `if true {`, "../agent", "TestKeyOfAnotherRequest",
	},
	{
		"S3 the digest outlives its run", "internal/tree/image.go",
		"spawnRef{s.Run, s.ID, s.Digest, s.Until, s.Spec, s.End}", `spawnRef{s.Run, s.ID, "", s.Until, s.Spec, s.End}`, "./internal/tree", "TestScenarios/spawn_key_other",
	},
	{
		"2.2 a run ends and stays so: the next one has its own state", "internal/tree/restart.go",
		"past := append(slices.Clip(r.Past), r.Present())", "past := slices.Clip(r.Past)",
		"./internal/tree", "TestScenarios/followup_completions",
	},
	{
		"2.1 a completion names its run", "internal/tree/inbox.go",
		"Ord: to.NextOrd, Class: Completion, At: at, From: child, RunID: run,",
		"Ord: to.NextOrd, Class: Completion, At: at, From: child,",
		"./internal/tree", "TestScenarios/followup_completions",
	},
	{
		"2.3 no run begins below an ended session", "internal/tree/restart.go",
		"\t\treturn &EndedError{r.Key(), ended.Key()}\n", "\t\treturn nil\n",
		"./internal/tree", "TestScenarios/followup_refused",
	},
	{
		"2.6 a restart counts against children", "internal/tree/restart.go",
		"\tr.Parent.live++\n", "", "./internal/tree", "TestScenarios/followup_refused",
	},
	{
		"2.7 a later run does not count for a join", "internal/tree/join.go",
		"\t\tif j.run(i) == run {\n", "\t\tif true {\n",
		"./internal/tree", "TestScenarios/followup_join",
	},
	{
		"2.7 a wait for all fixes its members", "internal/tree/join.go",
		"\t\t\tlist = append(list, joinMember{c.Key(), c.runName()})\n", "", "./internal/tree", "TestScenarios/join_later",
	},
	{
		"C3 a session keeps the first skills that it takes", "internal/tree/skills.go",
		"\tif r.Skills != nil {\n", "\tif false {\n", "./internal/tree", "TestScenarios/skills",
	},
	{
		"C3 the skills of a session outlive its process", "internal/tree/apply.go",
		"\t\tr.Skills = f.Skills()\n", "\t\tr.Skills = nil\n", "./internal/tree", "TestScenarios/skills",
	},
	{
		"2.8 a turn that crashed is owed", "internal/tree/settle.go",
		"\tcase r.Retry:\n", "\tcase false:\n", ".", "TestCrashedTurnWithoutInputsIsOwed",
	},
	{
		"2.8 a message that kills the process is given up", "internal/tree/decide.go",
		"len(r.Crashes) < MaxAttempts-1 {", "true {", ".", "TestMessageThatKillsTheProcess",
	},
	{
		"2.8 an operator sees which turns were cut", "treeshell.go",
		"\t\tsh.logCrash(t, facts, i)\n", "", ".", "TestCrashesAreLogged",
	},
	{
		"2.8 an operator sees which messages are given up", "treeshell.go",
		"f.Flags&tree.FlagGivenUp != 0 {", "false {", ".", "TestCrashesAreLogged",
	},
	{
		"2.8 an input has three attempts of its own", "internal/tree/decide.go",
		"f.Ord = r.Crashes[len(r.Crashes)-(MaxAttempts-1)]", "f.Ord = r.Open.Through", "./internal/tree", "TestScenarios/crash_thrice",
	},
	{
		"2.8 a shutdown is not an attempt", "internal/tree/apply.go",
		"\tif !open.Shutdown {\n", "\tif true {\n", "./internal/tree", "TestScenarios/crash_thrice",
	},
	{
		"I3 a failure ends a wait too", "internal/tree/join.go",
		"\tif j.Left > 0 {\n", "\tif j.Left > 0 && end == OK {\n", "./internal/tree", "TestScenarios/join_all",
	},
	{
		"2.1 a fact is about the run of its time", "internal/tree/restart.go",
		"\t\tif later--; later == 0 {\n", "\t\tif later--; false {\n",
		".", "TestEventsOfLaterRuns/one_batch_true",
	},
	{
		"2.1 what is stopped is the run that is meant", "internal/tree/decide.go",
		"\tif !r.isPresent(c.RunID) {\n", "\tif false {\n", ".", "TestRunThatIsFollowed",
	},
	{
		"2.5 a steer is for the run that is meant", "internal/tree/mail.go",
		"r.State.Terminal() || !r.isPresent(c.RunID):", "r.State.Terminal():",
		".", "TestRunThatIsFollowed",
	},
	{
		"2.1 a wait is for a run", "info.go",
		"\t\treturn r.RunOf(string(ref.Run))\n", "\t\treturn r.Present(), true\n",
		".", "TestRunThatIsFollowed",
	},
	{
		"2.1 a wait keeps what another run has followed", "wait.go",
		"\t\t\tinfo, found = w.frozen[ref]\n", "", ".", "TestWaitForARunThatIsNotKept",
	},
	{
		"2.1 a completion is of its run", "info.go",
		"\tof, kept := r.RunOf(run)\n", "\tof, kept := r.Present(), true\n",
		".", "TestCompletionsOfLaterRuns",
	},
	{
		"2.6 a spawn key names the run that it has made", "command.go",
		"\t\tif kept && first.Begin != r.Run.Begin {", "\t\tif kept && false {",
		".", "TestUsageOfLaterRuns",
	},
	{
		"2.6 the usage of a session is that of all its runs", "internal/tree/restart.go",
		"\tif r.Begin == nil {\n\t\treturn r.Usage\n\t}\n", "\tif true {\n\t\treturn r.Usage\n\t}\n",
		".", "TestUsageOfLaterRuns",
	},
	{
		"I3 a child named twice is waited for once", "internal/tree/join.go",
		"\tlist = slices.Compact(list)\n", "",
		"./internal/tree", "TestScenarios/join_twice",
	},
	{
		"I3 a silent end just before the wait begins counts too", "internal/tree/decide.go",
		"w.Left > 0 || t.missedEnd(r, c.Yield)", "w.Left > 0", "./internal/tree", "TestScenarios/join_missed",
	},
	{
		"I3 one that ended well without a word counts for a parent that waits for one", "internal/tree/join.go",
		"if j.Need > 0 && r.Open != nil {", "if false {", ".", "TestSilentMemberCounts",
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
		"I4 a turn that was cancelled begins nothing", "internal/tree/decide.go",
		"case r.TurnCancelled || r.Cause != NoCause:", "case false:", "./internal/tree", "TestTurnThatEnds",
	},
	{
		"1.7 what a turn has read that is given up is in the conversation", "internal/tree/settle.go",
		"\t\tf.Num = reached.pos\n", "", "../agent", "TestTurnThatIsGivenUpLosesNothing",
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
		"I5 a child gets what its parent may hand down", "internal/tree/rights.go",
		"Delegable: now.Delegable, Sandboxed: now.Sandboxed,", "Delegable: t.Authority(t.root).Delegable, Sandboxed: now.Sandboxed,", ".", "TestHistories$",
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
		"\tt.applyAnswer(r, f, aside)\n", "\tif r.Cause == NoCause {\n\t\tt.applyAnswer(r, f, aside)\n\t}\n",
		"./internal/tree", "TestScenarios/first_cause",
	},
	{
		"S10 what is over a limit is refused", "internal/tree/limits.go",
		"if limit < 0 || size <= limit {", "if true {", ".", "TestLimits$",
	},
	{
		"I7 a text survives the journal byte for byte", "internal/tree/encode.go",
		"if utf8.ValidString(string(t)) {", "if utf8.ValidString(string(t)) || true {", "./internal/tree", "TestCodecRoundTrip",
	},
	{
		"I9 an interrupted turn has used what it reserved", "internal/tree/apply.go",
		"\t\tt.applyCrash(r, open, f)\n", "\t\tt.applyCrash(r, open, f)\n\t\taddCharge(r, Budget{}.Sub(open.Reserve))\n", "./internal/tree", "TestScenarios/budget_crash",
	},
	{
		"I9 what a call used beyond its reservation counts", "internal/tree/budget.go",
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
		"1.3 a command has no more texts than a journal takes", "internal/tree/limits.go",
		"\tif n <= MaxCommand {\n", "\tif true {\n", ".", "TestNoLimitCannotBreakTheJournal",
	},
	{
		"I14 the same spawn key gives the same run", "internal/tree/request.go",
		"\tif c.Key == \"\" {\n", "\tif c.Key != \"-\" {\n", ".", "TestHistories$",
	},
	{
		"I14 a spawn key outlives its run", "internal/tree/request.go",
		"ref.Until = sat.Add(at, int64(KeyWindow))", "ref.Until = sat.Add(at, 1)", "./internal/tree", "TestScenarios/spawn_key",
	},
	{
		"A2 the outcome of a key outlives its run", "internal/tree/request.go",
		"ref.spec, ref.end = spec, &end\n", "_, _ = spec, end\n", ".", "TestOutcomeOfAKeyIsKept",
	},
	{
		"A2 what is kept has no task", "internal/tree/request.go",
		"\t\tspec.Task = \"\"\n", "", ".", "TestOutcomeOfAKeyIsKept",
	},
	{
		"A3 the key is that of the newest attempt", "internal/tree/request.go",
		" || t.spawned[keyOf(r.Spec)].Run != r.key {", " {", "./internal/tree", "TestScenarios/again$",
	},
	{
		"A3 only what was cut short is begun again", "internal/tree/decide.go",
		" || !t.wasCutShort(ref) {", " {", "./internal/tree", "TestScenarios/again_gone",
	},
	{
		"A3 a model's key is not begun again", "internal/tree/decide.go",
		"!c.Again || c.Request.ByModel || ", "!c.Again || ", "./internal/tree",
		"TestScenarios/again_model",
	},
	{
		"A3 what was stopped with a run that crashed was cut short", "internal/tree/settle.go",
		"\t\t\t\t\treason = crashedAbove ", "\t\t\t\t\t", "./internal/tree",
		"TestScenarios/again_below",
	},
	{
		"I15 a refusal says how long to wait", "internal/tree/mail.go",
		`+ "; wait " + time.Duration(wait).String()`, `+ time.Duration(wait).String()[:0]`, "./internal/tree", "TestScenarios/steer_limits",
	},
	{
		"I16 a snapshot says everything", "internal/tree/image.go",
		"\t\tt.holdEntry(&e, 1)\n", "", "./internal/tree", "TestScenarios/outbox",
	},
	{
		"I16 only what Apply does is folded", "internal/tree/settle.go",
		"\t\tr.cascaded = true\n", "\t\tr.cascaded = true\n\t\tr.setReason(r.Reason + \".\")\n", "./internal/tree", "TestScenarios/stop",
	},
	{
		"I17 an end waits for the descendants", "internal/tree/settle.go",
		"\tcase r.live > 0:\n", "\tcase false:\n", "./internal/tree", "TestScenarios/stop",
	},
	{
		"R13 a person who writes meanwhile moves a session up", "internal/tree/settle.go",
		"r.IsRoot() && r.ForPeople() && !r.askedForPeople", "false", "./internal/tree", "TestScenarios/post_id",
	},
	{
		"R13 what a cancelled turn was to read starts no turn after a snapshot", "internal/tree/run.go",
		"through := max(r.Consumed, r.Aside)\n\tfor", "through := r.Consumed\n\tfor",
		"./internal/tree", "TestScenarios/stop_waiting",
	},
	{
		"R13 what a cancelled turn was to read is not counted twice", "internal/tree/inbox.go",
		"from := max(r.Consumed, r.Aside)", "from := r.Consumed", "./internal/tree", "TestHistories",
	},
	{
		"R13 a turn that waits for its slot can be cancelled", "internal/tree/decide.go",
		"if r.IsRoot() && r.asked && r.wantsTurn(t.now) {", "if false {", "./internal/tree", "TestScenarios/stop_waiting",
	},
	{
		"R6 nothing is decided before its questions are answered", "internal/tree/decide.go",
		"if open := asker.missing(); open != nil {\n\t\treturn", "if open := asker.missing(); open != nil && false {\n\t\treturn", ".", "TestCallbacksOfASpawn",
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
		"a steer starts no turn of what has finished", "internal/tree/settle.go",
		"return r.nUser > 0 || r.nComp > 0 || r.nRepair > 0\n", "return r.nUser > 0 || r.nComp > 0 || r.nControl > 0\n", "./internal/tree", "TestScenarios/steer",
	},
	{
		"a chat of long messages is compacted", "internal/tree/image.go",
		"\tif t.textSince > 4*t.text() {", "\tif false {", "./internal/tree", "TestLongTextsAreCompacted",
	},
	{
		"what was read is in no snapshot", "internal/tree/inbox.go",
		"\t\tt.forgetText(len(in.Text))\n", "", "./internal/tree", "TestLongTextsAreCompacted",
	},
	{
		"a chat is compacted", "internal/tree/image.go",
		"t.sinceSnapshot > 4*(t.runs.Len()+len(t.outbox.entries))+len(t.spawned)+t.posts.Len()", "t.sinceSnapshot > 4*(t.runs.Len()+len(t.outbox.entries)+len(t.spawned)+t.posts.Len())",
		"./internal/tree", "TestChatIsCompacted",
	},
	{
		"order: what does not arrive holds back what is behind it", "internal/tree/outbox.go",
		"\t\tt.recall(q)\n", "", "./internal/tree", "TestScenarios/order",
	},
	{
		"order: what has failed goes alone", "internal/tree/outbox.go",
		"q.flying > 0 && q.since > 0 && !q.pending[0].Busy", "false", "./internal/tree", "TestScenarios/order",
	},
	{
		"an arrival clears the clock of its destination", "internal/tree/apply.go",
		"\t\te.queue.since = 0\n", "", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"the clock of a destination runs from its first failure", "internal/tree/apply.go",
		"cmp.Or(e.queue.since, f.At), e.Wait)", "cmp.Or(f.At, e.queue.since), e.Wait)", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"the clock of a destination survives a snapshot", "internal/tree/image.go",
		"\t\te.queue.since = c.Since\n", "", "./internal/tree", "TestScenarios/order_clock",
	},
	{
		"after a blocked head the next gets one try", "internal/tree/apply.go",
		"\t\t\te.Blocked, e.Error, e.Due, e.Wait = f.At, f.Text, 0, 0\n", "\t\t\te.Blocked, e.Error, e.Due, e.Wait = f.At, f.Text, 0, 0\n\t\t\te.queue.since = 0\n",
		"./internal/tree", "TestScenarios/order_clock",
	},
	{
		"a receiver's pause does not count to the half hour", "internal/tree/apply.go",
		"cmp.Or(e.queue.since, f.At), e.Wait)", "cmp.Or(e.queue.since, f.At), 0)",
		"./internal/tree", "TestScenarios/outbox_answers",
	},
	{
		"a receiver's pause is kept", "internal/tree/outbox.go",
		"sat.Add(now, wait+int64(", "sat.Add(now, wait-int64(", ".", "TestRetryAfter",
	},
	{
		"a receiver's pause is a day at most", "internal/tree/outbox.go",
		"max(wait, int64(ShortestWait)), int64(LongestWait))", "max(wait, int64(ShortestWait)), wait)", ".", "TestRetryAfter",
	},
	{
		"a clock that was set back keeps a receiver's pause", "internal/tree/timers.go",
		"sat.Add(f.At, max(int64(LastRetry), e.Wait))", "sat.Add(f.At, int64(LastRetry))",
		"./internal/tree", "TestScenarios/outbox_answers",
	},
	{
		"a receiver's pause is no clock that was ahead", "internal/tree/timers.go",
		"sat.Add(t.now, max(int64(LastRetry), e.Wait))", "sat.Add(t.now, int64(LastRetry))",
		"./internal/tree", "TestScenarios/outbox_answers",
	},
	{
		"what can never arrive is blocked at once", "internal/tree/outbox.go",
		"\tcase c.Never:\n\t\tblocked = true\n", "", ".", "TestPermanentIsBlockedAtOnce",
	},
	{
		"a busy receiver comes before what can never arrive", "sender.go",
		"r.busy = errors.Is(err, ErrBusy)\n",
		"r.busy = errors.Is(err, ErrBusy) && !errors.Is(err, ErrPermanent)\n",
		".", "TestReady",
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
		"a journal begins with its first entry", "internal/tree/tree.go",
		"if t.epoch > 0 || f.Kind == Snapshot ||", "if true ||", ".", "TestJournalWithoutItsFirstEntryIsRefused",
	},
	{
		"the first owner is the first", "internal/tree/tree.go",
		"f.Kind == Opened && f.Num == 1 {", "f.Kind == Opened {", ".", "TestJournalWithoutItsFirstEntryIsRefused",
	},
	{
		"a night without a process blocks nothing", "internal/tree/apply.go",
		"\tt.outbox.skip(last, f.At)\n", "\t_ = last\n", "./internal/tree",
		"TestScenarios/outbox_downtime",
	},
	{
		"a night is not taken from a destination that does not fail", "internal/tree/outbox.go",
		"if q.since > 0 && to > from {", "if to > from {", "./internal/tree",
		"TestScenarios/outbox_downtime",
	},
	{
		"a clock that was set back makes no failure older", "internal/tree/outbox.go",
		"if q.since > 0 && to > from {", "if q.since > 0 {", "./internal/tree",
		"TestScenarios/outbox_downtime",
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
		"{s.Parent, s.SpawnKey(), s.ByModel}", "{s.Parent, s.SpawnKey(), false}", "./internal/tree",
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
		"1.5 names are free again when the inputs are consumed", "internal/tree/mail.go",
		"if ended && !repeats {", "if false {", "./internal/tree", "TestScenarios/say$",
	},
	{
		"1.5 the end of a wait forgets nothing of a turn that is to be repeated", "internal/tree/mail.go",
		"ended := open.repeats(s) ||", "ended := true ||", "./internal/tree", "TestScenarios/say_wait",
	},
	{
		"1.5 a turn without an input has names of its own", "internal/tree/mail.go",
		"return s.Empty == o.Empty ||", "return true ||", "./internal/tree", "TestScenarios/say_wait",
	},
	{
		"1.5 an input that comes meanwhile repeats nothing", "internal/tree/mail.go",
		"|| s.Empty && o.Wait != nil", "", "./internal/tree", "TestScenarios/say_wait",
	},
	{
		"1.5 what was said survives a snapshot", "internal/tree/decodeimage.go",
		"r.Said = scanList(s, (*scanner).saying)", "_ = scanList(s, (*scanner).saying)",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"1.5 a sub-agent does not speak to people", "internal/tree/mail.go",
		"\tif !r.answersPeople(r.Inbox, r.Open.Through) {\n\t\treturn Reply{}, fmt.Errorf(\"%w: %q\", ErrNoConversation, c.Run)",
		"\tif false {\n\t\treturn Reply{}, fmt.Errorf(\"%w: %q\", ErrNoConversation, c.Run)",
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
		"what a session keeps is of its conversation", "internal/tree/reset.go",
		"\tr.setKept(\"\") // it was of the conversation before\n", "", "./internal/tree",
		"TestScenarios/kept",
	},
	{
		"what a session keeps stands in later runs", "internal/tree/restart.go",
		"Active: f.At, Kept: r.Kept,", "Active: f.At,", "./internal/tree", "TestScenarios/kept",
	},
	{
		"what a session keeps is recorded once", "internal/tree/keep.go",
		"case r.Kept == c.Kept:", "case false:", "./internal/tree", "TestScenarios/kept",
	},
	{
		"what a session keeps is bounded", "internal/tree/keep.go",
		"case n > MaxKept:", "case false:", "../agent", "TestStateOfAnyBytes",
	},
	{
		"A3 to keep something is to do something", "internal/tree/apply.go",
		"\t\tr.didWork = true\n\t\tr.setKept(f.Text)\n", "\t\tr.setKept(f.Text)\n", "./internal/tree",
		"TestScenarios/kept_untouched",
	},
	{
		"what a session keeps survives a snapshot", "internal/tree/decodeimage.go",
		"\t\tr.Kept = s.text()\n", "\t\t_ = s.text()\n", "./internal/tree",
		"TestDecoderKnowsEveryMember",
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
		"list := r.waiting(inbox, read, to)", "var list []Asked", "./internal/tree", "TestScenarios/asked",
	},
	{
		"1.4 a message waits no longer when no turn is to come", "internal/tree/apply.go",
		"if p.Asked != nil && !p.owesAnswer() && (p.IsRoot() || p.Cause == NoCause) {", "if false {", "./internal/tree", "TestScenarios/asked_ends",
	},
	{
		"the gaps of a route are filled in", "internal/tree/inbox.go",
		"filled := route.Or(*stored)", "filled := *route", "./internal/tree", "TestScenarios/route_gaps",
	},
	{
		"1.6 keys begin with the first session id", "internal/tree/image.go",
		"cmp.Or(m.FirstSession, m.Runs[0].Spec.SessionID)", "m.Runs[0].Spec.SessionID",
		"./internal/tree", "TestFirstSessionStays",
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
		"\tif len(a.ByModel()) == 0 {\n", "\tif a.ResultMore = nil; true {\n", ".", "TestUsageIsTheSumOfTheTurns",
	},
	{
		"P32 a message that no run has read is new when it comes again",
		"internal/tree/inbox.go", "t.forgetUnread(r, in)", "_ = t", "./internal/tree",
		"TestScenarios/followup_unread",
	},
	{
		"P32 what a conversation is told of stays known",
		"internal/tree/seen.go", "p.how == toldDirectly && p.isFrom(r.key, o)", "p.isFrom(r.key, o)",
		"./internal/tree", "TestScenarios/followup_unread",
	},
	{
		"Usage the end of a turn is activity", "internal/tree/apply.go",
		"r.Open, r.Active = nil, f.At", "r.Open = nil", ".", "TestSessionsByActivity",
	},
	{
		"a wait ends while an archive is under way", "internal/tree/settle.go",
		"\t\t\tt.armTimerAt(x.run, t.runWakeTimeAfter(x.run, t.now))\n", "",
		"./internal/tree", "TestScenarios/join_archiving",
	},
	{
		"3.1 a clock that goes back is set right alike while entries are in flight",
		"internal/tree/outbox.go", "wait = max(wait, e.Wait)",
		"if wait = q.pending[0].Wait; e.Wait < 0 {\n\t\t\tbreak\n\t\t}", "./internal/tree",
		"TestScenarios/order_clock_late",
	},
}
