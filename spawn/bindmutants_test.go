package spawn_test

// bindMutants are the mutants of what is decided for conversations that are bound to sessions.
var bindMutants = []mutant{
	{
		"2.10 a bound session is not archived", "internal/tree/archive.go",
		"case r.isHeld() || len(r.Bound) > 0:\n\t\treturn false\n\t}\n\treturn t.arch",
		"case r.isHeld():\n\t\treturn false\n\t}\n\treturn t.arch", "./internal/tree",
		"TestScenarios/bind$",
	},
	{
		"2.10 no conversation is bound below a run that has ended", "internal/tree/bind.go",
		"\tcase above.State.Terminal():\n\t\treturn &EndedError{k, above.Key()}\n",
		"\tcase above.State.Terminal():\n", "./internal/tree", "TestScenarios/bind_refused",
	},
	{
		"2.3 what is below a run that ends is closed", "internal/tree/bind.go",
		"case above != nil:\n\t\treturn unboundBy(above)",
		"case above != nil && false:\n\t\treturn unboundBy(above)", "./internal/tree", "TestScenarios/unbind_above",
	},
	{
		"2.3 a run that ends closes what is below it at once", "internal/tree/apply.go",
		"\t\tif len(c.Bound) > 0 {\n",
		"\t\tif false {\n", "./internal/tree", "TestScenarios/unbind_above",
	},
	{
		"2.9 a conversation stays until the end has arrived", "internal/tree/bind.go",
		"return r.held > 0 && r.Cause != Stopped &&",
		"return false && r.Cause != Stopped &&", "./internal/tree", "TestScenarios/unbind$",
	},
	{
		"2.9 a session keeps its conversation", "internal/tree/bind.go",
		"case !r.State.Terminal() || r.Spec.Session || r.Begin != nil:",
		"case !r.State.Terminal() || r.Begin != nil:", "./internal/tree", "TestScenarios/unbind_session",
	},
	{
		"2.9 what is bound after the end stays", "internal/tree/bind.go",
		"if !late && r.State.Terminal() && c.At > r.Ended {",
		"if !late && false {", "./internal/tree", "TestScenarios/unbind_session",
	},
	{
		"2.9 a stop unbinds", "internal/tree/bind.go",
		"case r.Cause == Stopped && !(r.TurnCancelled && r.inThread()):",
		"case false:", "./internal/tree", "TestScenarios/unbind_session",
	},
	{
		"2.9 a stop before the first turn is a stop", "internal/tree/bind.go",
		"return unboundStopped, r.neverBegan()", "return unboundStopped, false",
		"./internal/tree", "TestScenarios/unbind_effect",
	},
	{
		"2.9 to cancel a turn over a message does not", "internal/tree/bind.go",
		"case r.Cause == Stopped && !(r.TurnCancelled && r.inThread()):",
		"case r.Cause == Stopped:", "./internal/tree", "TestScenarios/unbind_session",
	},
	{
		"2.10 an unbind that failed is tried again after a pause", "internal/tree/bind.go",
		"case !r.unbinding && t.unbindRetries[r].at <= t.now:",
		"case !r.unbinding:", "./internal/tree", "TestScenarios/unbind_effect",
	},
	{
		"2.10 one conversation is unbound at a time", "internal/tree/bind.go",
		"case !r.unbinding && t.unbindRetries[r].at <= t.now:",
		"case t.unbindRetries[r].at <= t.now:", "./internal/tree", "TestScenarios/unbind_effect",
	},
	{
		"2.10 a message of a conversation that is not bound is refused", "internal/tree/bind.go",
		"i >= 0 && t.closing(r, &r.Bound[i]) == \"\" {",
		"i >= 0 {", "./internal/tree", "TestScenarios/thread_instant",
	},
	{
		"2.10 the own session of a conversation knows its messages", "internal/tree/seen.go",
		"if how == toldAsBound && f.From().IsValid() {",
		"if false {", "./internal/tree", "TestScenarios/thread_own",
	},
	{
		"2.5 what a conversation is told is not the answer of the run", "internal/tree/apply.go",
		"\t\tif aside {\n\t\t\treturn\n\t\t}\n",
		"", "./internal/tree", "TestScenarios/thread$",
	},
	{
		"2.5 a turn answers a conversation or its requester", "internal/tree/inbox.go",
		"&& !at.takes(to) {", "&& !at.takes(to) && false {", "./internal/tree", "TestScenarios/thread$",
	},
	{
		"2.5 a turn answers one conversation", "internal/tree/inbox.go",
		"&& !at.takes(to) {", "&& at.people != to.people {", "./internal/tree", "TestScenarios/thread_rooms",
	},
	{
		"3.3 a turn answers one conversation that is not bound", "internal/tree/inbox.go",
		"unknown := at.people && !at.bound && at.route.IsZero()", "unknown := at.people && !at.bound",
		"./internal/tree", "TestTurnAnswersOneRoute",
	},
	{
		"3.3 what says nothing of where it comes from is answered where the last was",
		"internal/tree/inbox.go", "\tcase top:\n\t\tat.route = last\n", "", "./internal/tree",
		"TestTurnAnswersOneRoute",
	},
	{
		"3.3 a turn that has read nothing answers where it began", "internal/tree/inbox.go",
		"known := r.Open != nil ||", "known := r.Open != nil && !r.IsRoot() ||",
		"./internal/tree", "TestScenarios/asked_places",
	},
	{
		"3.3 a turn that a wait begins answers where that began", "internal/tree/apply.go",
		"\t\tr.answerWait(f.Route)\n", "", "./internal/tree", "TestScenarios/wait_places",
	},
	{
		"3.3 a turn for another place does not end a wait", "internal/tree/join.go",
		"ord > through || r.waitPlace().takes(to)", "ord > through || r.waitPlace().takes(to) || true", "./internal/tree",
		"TestScenarios/wait_places",
	},
	{
		"3.3 a wait that is over is passed once", "internal/tree/apply.go",
		"\t\tpassed.Passed = true\n", "", "./internal/tree", "TestScenarios/wait_places",
	},
	{
		"3.3 a turn that crashes comes back to its wait", "internal/tree/apply.go",
		"\tif f.Flags&FlagGivenUp == 0 {\n\t\tr.waitAgain(open)\n", "\tif f.Flags&FlagGivenUp == 0 {\n",
		"./internal/tree", "TestScenarios/wait_places",
	},
	{
		"3.3 a sub-agent that waits for people answers them", "internal/tree/inbox.go",
		"people = !r.Open.Wait.At.IsZero()", "people = r.inThread()", "./internal/tree",
		"TestScenarios/wait_places_run",
	},
	{
		"3.3 a wait for the requester stays that", "internal/tree/join.go",
		"\tcase own && r.asideOfRun(r.Inbox, r.Open.Through):\n", "\tcase own && false:\n",
		"./internal/tree", "TestScenarios/wait_places_run",
	},
	{
		"3.3 a reply names what was asked in its place", "internal/tree/mail.go",
		"return *a.At == to.at\n", "return true\n", "./internal/tree", "TestScenarios/asked_places",
	},
	{
		"3.3 a turn leaves what was asked elsewhere", "internal/tree/decide.go",
		"\tf.Elsewhere = r.asksElsewhere(r.Inbox, r.Open.Through)\n", "", "./internal/tree",
		"TestScenarios/asked_places",
	},
	{
		"3.3 a turn that an earlier library recorded answers all places", "internal/tree/mail.go",
		"case !to.apart || a.At == nil ||", "case a.At == nil ||", "./internal/tree",
		"TestAskedTogetherByAnEarlierLibrary",
	},
	{
		"3.3 what an earlier library kept together takes nothing more", "internal/tree/mail.go",
		"|| to.apart && a.At == nil {", "{", "./internal/tree", "TestAskedTogetherByAnEarlierLibrary",
	},
	{
		"3.3 a caller waits for what is said in its place", "internal/tree/mail.go",
		"if !known || own.at == nil ||", "if true || !known || own.at == nil ||", "../agent",
		"TestPostAndWaitInSeveralPlaces",
	},
	{
		"2.13 a message of another session begins no request", "internal/tree/request.go",
		"if in.From.IsValid() && !in.Thread {", "if false {", "./internal/tree", "TestScenarios/request_sent",
	},
	{
		"2.9 a crash of the first turn leaves the thread", "internal/tree/bind.go",
		"return r.State.Terminal() && r.Turns == 0", "return r.State.Terminal() && r.Consumed == 0",
		"./internal/tree", "TestScenarios/thread_crash_first",
	},
	{
		"2.5 a run that a conversation began answers there to the end", "internal/tree/inbox.go",
		"return in.Thread || r.inThread() && in.Class != User",
		"return in.Thread", "./internal/tree", "TestScenarios/thread_run",
	},
	{
		"2.5 the requester is not answered to people", "internal/tree/inbox.go",
		"\tpeople := r.inThread() //", "\tpeople := true //", "./internal/tree", "TestScenarios/thread$",
	},
	{
		"2.5 a run that fails apologises", "internal/tree/settle.go",
		"\tt.apologize(r, &f)\n",
		"", "./internal/tree", "TestScenarios/thread_apology",
	},
	{
		"2.5 a run that was stopped does not", "internal/tree/mail.go",
		"return end == Cancelled && !slices", "return false && !slices", "./internal/tree", "TestScenarios/thread_apology",
	},
	{
		"2.5 what was passed over is not apologised for", "internal/tree/apply.go",
		"\tcase !r.inThread() && !r.waitsForPeople():\n\t\tr.setAsked(nil)",
		"\tcase false:\n\t\tr.setAsked(nil)", "./internal/tree", "TestScenarios/thread_unread",
	},
	{
		"2.5 a run that was stopped says so where no turn has read", "internal/tree/mail.go",
		"return in.Thread && a.isAt(in.Route) }", "return in.Thread }", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 each conversation that a run leaves is told", "internal/tree/mail.go",
		"len(owed) > 1 {", "false {", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 an apology names the messages of its conversation", "internal/tree/mail.go",
		"\t\te.Route = asked.Route\n", "\t\te.Route = r.Route\n", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 a reply names the messages of its conversation", "internal/tree/mail.go",
		"a, own = askedAt(&list, at), false", "a, own = askedAt(&list, r.Route), false", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 a reply leaves what another conversation waits for", "internal/tree/mail.go",
		"return to.has(&a) }))\n\tdefault:", "return to.has(&a) || true }))\n\tdefault:", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 a top-level session answers a child where it was asked for", "internal/tree/inbox.go",
		"\tif in.Class == Completion {\n\t\troute = t.routeOf(r, in)", "\tif in.Class == Completion && !top {\n\t\troute = t.routeOf(r, in)",
		"./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 an own conversation is not answered in a bound one", "internal/tree/inbox.go",
		"\tcase !apart && r.Home != nil &&", "\tcase false &&", "./internal/tree", "TestScenarios/thread_two",
	},
	{
		"2.5 the end of a sub-agent moves no chat", "internal/tree/inbox.go",
		"return at != last || r.converses(at)", "return r.converses(at)",
		"../agent", "TestEndOfASubagentMoves",
	},
	{
		"2.5 a message without a route is not of a bound conversation", "internal/tree/inbox.go",
		"in.Class == User && !in.Thread && in.Route != nil", "in.Class == User && in.Route != nil",
		"../agent", "TestOwnMessageBehindAnUnreadBoundOne",
	},
	{
		"2.5 a kept message is one of its conversation", "internal/tree/mail.go",
		"slices.Contains(a.IDs, c.ID) && t.isAt(l, a.Route != nil, cmp.Or(a.Route, a.At))",
		"slices.Contains(a.IDs, c.ID)", "../agent", "TestPostAndWaitWithKeptIDs",
	},
	{
		"2.10 ids name messages of one conversation", "internal/tree/seen.go",
		"if p.until > t.now && p.isFrom(to, o) {", "if p.until > t.now {", "../agent", "TestConversationsWithTheSameIDs",
	},
	{
		"2.10 a session that refuses messages is not focused", "../agent/focus.go",
		"err = rt.sup.CanBind(ctx, root, q.Session)\n", "_ = rt.sup.CanBind(ctx, root, q.Session)\n", "../agent", "TestFocus",
	},
	{
		"2.5 a wait goes on over what people ask", "internal/tree/join.go",
		"j.At == nil && r.asideOfRun(r.Inbox, f.Ord) {", "j.At == nil && false {", "./internal/tree", "TestScenarios/thread_wait",
	},
	{
		"2.10 who unbinds first does not keep the archive", "internal/tree/bind.go",
		"t.armTimer(r) // also where", "// also where", "./internal/tree",
		"TestScenarios/unbind_by_hand",
	},
	{
		"2.10 what a command has unbound is not due any more", "internal/tree/tree.go",
		"slices.ContainsFunc(t.unbinding, t.owesUnbind)",
		"slices.ContainsFunc(t.unbinding, func(*Run) bool { return true })",
		"./internal/tree", "TestScenarios/unbind_by_hand",
	},
	{
		"2.10 what waits for an unbinding to be archived is due when it would be without",
		"internal/tree/tree.go", "at = earlier(at, t.archiveAt(r))", "_ = r", "./internal/tree",
		"TestScenarios/unbind_by_hand",
	},
	{
		"2.10 an unbinding that failed is tried again, whatever came between", "internal/tree/bind.go",
		"\t\tt.armTimer(r)\n\t}\n}\n", "\t}\n}\n", "./internal/tree",
		"TestScenarios/unbind_again",
	},
	{
		"2.10 what stays after the end is not to be unbound", "internal/tree/bind.go",
		"(late || !r.State.Terminal() || r.boundBy(r.Ended))",
		"(late || !r.State.Terminal() || len(r.Bound) > 0)", "./internal/tree",
		"TestWhatIsBoundAfterTheEndStays",
	},
	{
		"2.10 a conversation is found by its route among many", "internal/tree/bound.go",
		"i, _ := slices.BinarySearch(r.bound.nos, no)\n\treturn i", "return int(no)",
		"./internal/tree", "TestBoundIndexAgreesWithTheList",
	},
	{
		"2.10 what is bound early is counted as it goes", "internal/tree/bound.go",
		"\t\t\tx.early--\n", "\t\t\tx.early -= 0\n", "./internal/tree",
		"TestBoundIndexAgreesWithTheList",
	},
	{
		"2.10 an image keeps the list of its moment", "internal/tree/image.go",
		"slices.Clone(s.Past), slices.Clone(s.Bound)", "slices.Clone(s.Past), s.Bound",
		"./internal/tree", "TestBoundIndexAgreesWithTheList",
	},
	{
		"2.5 a conversation of two sessions tells one of them", "internal/tree/seen.go",
		"\tcase p.how != toldDirectly || o.bound:\n",
		"\tcase (p.how == toldAsBound) != o.bound:\n\t\treturn false\n\tcase p.how != toldDirectly:\n",
		"./internal/tree", "TestScenarios/thread_both",
	},
}
