package spawn_test

// roomMutants are the mutants of the other packages of the module.
var roomMutants = []mutant{
	{
		"D3 what models spawn is limited for each request", "../policy/admit.go",
		"\tcase byModel && r.MaxRunsPerRequest() != Off", "\tcase false && r.MaxRunsPerRequest() != Off", "../agent", "TestSpawnLoopOfAModel",
	},
	{
		"D3 what answers a delivery belongs to the request of its run", "../agent/sessiontools.go",
		"cmp.Or(answered, h.token)", "cmp.Or(h.token, answered)", "../agent", "TestSpawnLoopOfACaller",
	},
	{
		"S3 the calls of each response are other calls", "../agent/loop.go",
		"\tcase step > 0:\n", "\tcase false:\n", "../agent", "TestToolCallIDsOfEachResponse",
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
		"I4 a turn of an agent spawns for itself", "../agent/turn.go",
		"\tif err := t.err(); err != nil {\n\t\treturn info, err\n\t}\n\tif q.Thread && !q.Dry {",
		"\tif !q.Thread {\n\t\treturn t.rt.sup.Spawn(ctx, t.Session.Root, t.Session.Key, q)\n\t}\n\tif q.Thread && !q.Dry {",
		"../agent", "TestNothingOutlivesItsTurn",
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
		"1.7 a call without a result gets one when the turn ends", "../agent/record.go",
		"r.write(ctx, true, append(answer, after...)...)",
		"r.write(ctx, false, append(answer, after...)...)",
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
		"\tcase err != nil && ctx.Err() == nil:\n\t\tout.Reply = apologyFor(err)\n", "", "../agent", "TestCallbacksThatMisbehave",
	},
	{
		"I8 an event that a model repeats does not reach a person", "../announce/echo.go",
		"if !v.HasFold(at, start) {", "if v.HasFold(at, start) {", "../announce", "TestEchoesDoNotReachPeople",
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
		"I13 the order of tools does not change the prompt", "../context/assemble.go",
		"slices.SortFunc(list, compareTools)", "_ = compareTools", "../context", "TestToolsAreListedByName|TestStablePrefixStandsStill",
	},
	{
		"I9 a Loop reserves before each call", "../agent/model.go",
		"\treturn t.spawn.Reserve(ctx, t.priced(model, expected()))\n",
		"\t_ = expected\n\treturn end, nil\n", "../agent", "TestTurnsAtTheSameTimeShareABudget",
	},
	{
		"only marked errors are tried again", "../agent/model.go",
		"if n >= tries || !IsRetryable(err) || ", "if n >= tries || ",
		"../agent", "TestModelCallsAreMadeAgain",
	},
	{
		"tries have an end", "../agent/model.go",
		"if n >= tries || ", "if n > tries || ", "../agent", "TestModelCallsAreMadeAgain",
	},
	{
		"D5 no text of an event is raw", "../agent/event.go",
		"\t\te.Text = shownText(r, e.Text)\n", "", "../agent", "TestNoEventIsRaw",
	},
	{
		"D5 no error of an event is raw", "../agent/event.go",
		"e.Error = shownText(r, e.Error); e.Error == \"\"", "e.Error == \"\"", "../agent", "TestNoEventIsRaw",
	},
	{
		"D5 what a tool answers is not raw", "../agent/event.go",
		"return status, shownHead(shownStart(r, said, 16*maxShownTool))",
		"return status, shownHead(text.Bound(said, 16*maxShownTool))", "../agent", "TestNoEventIsRaw",
	},
	{
		"1.13 an answer ends when a tool is called", "../agent/event.go",
		"\tt.deltas.end(t.spawn)\n\tif !t.spawn.Watched() {\n", "\tif !t.spawn.Watched() {\n", "../agent", "TestDeltasOfAnAnswer",
	},
	{
		"1.13 an answer ends with the turn", "../agent/turn.go",
		"\tt.deltas.end(t.spawn)\n\tt.gate.Lock()\n", "\tt.gate.Lock()\n", "../agent", "TestDeltasOfAnAnswer",
	},
	{
		"1.13 an answer is void when the model is asked again", "../agent/model.go",
		"\tt.deltas.void(t.spawn, nil)\n", "", "../agent", "TestDeltasBeginWithAnAnswer",
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
		"1.10 a summary that hangs is named", "../agent/compact.go",
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
		"1.11 a picture goes with its message into the new conversation", "../agent/record.go",
		"r.bring(ctx, r.formerRefs(st.Former), fresh, nil)", "r.bring(ctx, nil, fresh, nil)", "../agent", "TestResetOverEveryCrash",
	},
	{
		"2.11 a fork ends before the line whose calls are open", "../agent/fork.go",
		"		return open.line - 1 //", "		return open.line //", "../agent", "TestForkPoint",
	},
	{
		"2.11 a fork has nothing from behind its position", "../agent/fork.go",
		"line.Pos > c.after() && line.Pos <= c.through &&", "line.Pos > c.after() &&", "../agent", "TestForkCut",
	},
	{
		"2.11 what is fenced later is a part of the fork", "../agent/fork.go",
		"line.Pos > c.through || m.Role", "m.Role", "../agent", "TestForkCut",
	},
	{
		"2.11 what an interrupted copy left is fenced off", "../agent/fork.go",
		"session.Fence(0, time.Now())", "session.Fence(math.MaxUint64, time.Now())", "../agent", "TestForkIsCopiedAnew",
	},
	{
		"2.11 files are copied before the line that names them", "../agent/fork.go",
		"r.bring(ctx, []session.Ref{from}, lines, files)", "r.bring(ctx, nil, lines, files)", "../agent", "TestForkOverEveryCrash",
	},
	{
		"2.11 what a copied line consumed is the requester's", "../agent/fork.go",
		"m.Ord, m.Usage, m.Copied = 0, session.Usage{}, true", "m.Copied = true", "../agent", "TestForkByAModel",
	},
	{
		"2.11 a conversation is shared with other agents by its own agent's word", "../policy/admit.go",
		"p.caller != nil && p.caller.ShareHistory", "p.target != nil && p.target.ShareHistory", "../agent", "TestForkAcrossAgents",
	},
	{
		"Usage the price is that of the model that ran", "../agent/model.go",
		"t.priced(a.Model, a.Usage)", `t.priced("", a.Usage)`, "../agent", "TestCallsHaveTheCostOfTheirModel",
	},
	{
		"Usage a cost that the caller gives stands", "../agent/usage.go",
		"if u.Cost > 0 || len(t.rt.prices) == 0 {", "if len(t.rt.prices) == 0 {", "../agent", "TestCallsHaveTheCostOfTheirModel",
	},
}
