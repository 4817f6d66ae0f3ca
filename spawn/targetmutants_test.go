package spawn_test

// targetMutants break the rules of what models and people may name, see and write to.
var targetMutants = []mutant{
	{
		"targets: a number is that of the list that was shown", "../agent/internal/target/find.go",
		"return s.listed(target, s.List[n-1])", "return s.Runs[n-1 : n], nil",
		"../agent/internal/target", "TestFind$",
	},
	{
		"targets: what may mean several is refused", "../agent/internal/target/find.go",
		"\tcase 1:\n\t\treturn found, nil\n\t}\n\tf := s.fault",
		"\tdefault:\n\t\treturn found[:1], nil\n\t}\n\tf := s.fault",
		"../agent/internal/target", "TestCandidates$",
	},
	{
		"targets: the beginning of an id has four characters", "../agent/internal/target/find.go",
		"return len(target) >= minIDPrefix && ", "return ",
		"../agent/internal/target", "TestFind$",
	},
	{
		"targets: all is for what takes many", "../agent/internal/target/find.go",
		"\t\tif s.Many {\n", "\t\tif true {\n",
		"../agent/internal/target", "TestFind$",
	},
	{
		"targets: a list is of use for half an hour", "../agent/internal/target/list.go",
		"if !ok || now.Sub(list.at) > shownFor {", "if !ok {",
		"../agent/internal/target", "TestBook$",
	},
	{
		"targets: what ended long ago is not listed", "../agent/internal/target/list.go",
		"case now.Sub(r.Ended) <= recent:", "default:",
		"../agent/internal/target", "TestList$",
	},
	{
		"rates: a message comes two seconds after another", "../agent/internal/target/pace.go",
		"case known && now.Sub(before.at) < pause && !now.Before(before.at):", "case false:",
		"../agent/internal/target", "TestPace$",
	},
	{
		"rates: a message that is repeated passes", "../agent/internal/target/pace.go",
		"case known && id != \"\" && before.id == id:", "case false:",
		"../agent/internal/target", "TestPace$",
	},
	{
		"rates: send obeys them", "../agent/send.go",
		"unsent, ok := h.rt.sends.Pass(pair, m.ID, sendPause, time.Now())\n\tif !ok {",
		"unsent, _ := h.rt.sends.Pass(pair, m.ID, sendPause, time.Now())\n\tif false {",
		"../agent", "TestSubagentsLogAndSend$",
	},
	{
		"rates: what was not taken does not count", "../agent/send.go",
		"\tif !taken {\n", "\tif !taken && false {\n", "../agent", "TestSendThatFailsDoesNotCount$",
	},
	{
		"rates: send takes 4,000 characters", "../agent/send.go",
		"n > maxSent {", "false {", "../agent", "TestSubagentsLogAndSend$",
	},
	{
		"sends: a wait has an end", "mail.go",
		"\t\tover = timer.C\n", "", "../agent", "TestSendThatWaitsForAnotherTree$",
	},
	{
		"sends: a turn that waits holds no slot, whatever context its tool has", "turn.go",
		"\tctx, done := t.Within(context.WithValue(ctx, turnKey{}, t))\n\tdefer done()\n" +
			"\treturn t.shell.sup.SendAndWait(",
		"\tctx, done := t.Within(context.WithValue(ctx, turnKey{}, (*TurnInput)(nil)))\n" +
			"\tdefer done()\n\treturn t.shell.sup.SendAndWait(",
		"../agent", "TestSendThatWaitsForAnotherTree$",
	},
	{
		"sends: a call that is repeated tells once", "../agent/send.go",
		"return h.spawnKey(h.token + place", "return h.spawnKey(session.NewID() + place",
		"../agent", "TestSendToAnotherTreeOverEveryCrash$",
	},
	{
		"sends: what a person ends is not waited for", "../agent/send.go",
		"case none(ErrTurnCancelled), none(ErrStopped):", "case false:",
		"../agent", "TestWaitForAnotherTreeEnds$",
	},
	{
		"visibility: another agent is seen where it is allowed", "../policy/authorize.go",
		"case !r.AgentToAgent.Enabled:", "case false:", "../policy", "TestAuthorize",
	},
	{
		"visibility: a sandbox narrows it", "../policy/authorize.go",
		"if c.Sandboxed && !r.Sandbox.SeeAll && sight > VisibilityTree {", "if false {",
		"../policy", "TestAuthorize",
	},
	{
		"visibility: a sub-agent takes messages from above alone", "../policy/authorize.go",
		"(self || t.Key.IsSubagent() && !below):", "self:", "../policy", "TestAuthorize",
	},
	{
		"visibility: a session controls what is below it alone", "../policy/authorize.go",
		"case self || !below:", "case self:", "../policy", "TestAuthorize",
	},
	{
		"visibility: a session that is not below is not seen by default", "../policy/authorize.go",
		"\tcase sight < VisibilityAgent:\n\tcase from == to:", "\tcase from == to:",
		"../policy", "TestAuthorize",
	},
	{
		"announcements: the chat is told in the place of the session", "../agent/sessiontools.go",
		"\t\ttask.Announce, task.Update = false, true\n", "", "../agent", "TestScenarioClawdbot$",
	},
	{
		"announcements: in the form of a report", "../agent/runtime.go",
		"\t\tsaid = event.Report()\n", "", "../agent", "TestScenarioClawdbot$",
	},
	{
		"announcements: a sub-agent that spawns is told itself", "../agent/config.go",
		"c.Reply != nil && !from.IsSubagent()", "c.Reply != nil",
		"../agent", "TestAnnounceToChatNeedsAChat$",
	},
}
