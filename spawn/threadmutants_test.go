package spawn_test

// threadMutants are the mutants of what the log of bindings decides, and of what package agent does
// for conversations that are bound.
var threadMutants = []mutant{
	{
		"bindings: the owner alone moves a binding", "../session/binding/state.go",
		"\tcase !old.mayChange(b.By):", "\tcase false:", "../session/binding", "TestBindAgain",
	},
	{
		"bindings: a conversation has one session", "../session/binding/state.go",
		"case old.Target != b.Target && !replace:", "case false:", "../session/binding",
		"TestSimultaneousBinds",
	},
	{
		"bindings: a touch does not go back", "../session/binding/state.go",
		"if !now.After(held.Touched) {", "if false {", "../session/binding",
		"TestClockThatGoesBack",
	},
	{
		"bindings: the owner alone sets limits", "../session/binding/state.go",
		"if over || !near || !other.mayChange(by) {", "if over || !near {", "../session/binding",
		"TestSetLimit",
	},
	{
		"bindings: an end is owed until it is settled", "../session/binding/state.go",
		"\t\ts.drop(f.Binding.Conversation)\n\t\tif f.ID != \"\" {",
		"\t\ts.drop(f.Binding.Conversation)\n\t\tif false {", "../session/binding",
		"TestEndsAreOwedUntilSettled",
	},
	{
		"bindings: a message goes to the session that knows it", "../agent/bindings.go",
		"\t\t\tif knows {\n", "\t\t\tif knows && false {\n", "../agent",
		"TestMessageIsToldOnceOverBinds",
	},
	{
		"bindings: the messages of a conversation are posted one after the other",
		"../agent/bindings.go", "\tunlock = sync.OnceFunc(unlock)\n\tdefer unlock()\n\tif err := b",
		"\tunlock()\n\tif err := b", "../agent", "TestMessagesOfAConversationInOrder",
	},
	{
		"bindings: no other process has the lock of a conversation",
		"../agent/internal/thread/sharing.go", "if err != nil || !s.Among() {", "if true {",
		"../agent", "TestFocusWhileAnotherProcessLooks",
	},
	{
		"bindings: a process reads what others have bound", "../agent/bindings.go",
		"\t\topen = binding.OpenShared\n", "", "../agent", "TestBindingsOfAnotherProcess",
	},
	{
		"bindings: one process says the farewells", "../agent/internal/thread/sharing.go",
		"\treturn err == nil\n", "\treturn true\n", "../agent", "TestExpiryInTwoProcesses",
	},
	{
		"bindings: an answer touches its binding", "../agent/bindings.go",
		"ok && found.Target == r.From {", "ok && false {", "../agent",
		"TestAnswersTouchTheBinding",
	},
	{
		"bindings: a thread that is gone is released at the start", "../agent/thread.go",
		"\tcase state == ThreadGone:\n", "\tcase false:\n", "../agent",
		"TestThreadsAreProbedAtTheStart",
	},
	{
		"bindings: eight things at once", "../agent/bindings.go",
		"const atOnce = 8", "const atOnce = 80", "../agent", "TestThreadsAreProbedAtTheStart",
	},
	{
		"bindings: a session that is gone for good leaves its conversation", "../agent/bindings.go",
		"b.releaseStale(ctx, root, to, !waits)\n",
		"_ = root\n", "../agent", "TestMessageToASessionThatIsGone",
	},
	{
		"bindings: a session that has a conversation still ends that for its own reason",
		"../agent/bindings.go", "if err == nil && !holds {", "if err == nil && (holds || true) {",
		"../agent", "TestMessagesMeetTheEndOfAThread",
	},
	{
		"bindings: a message without a route is one of its session's conversation",
		"../agent/bindings.go",
		"\t\tat = s.key.Route().Clean()\n", "", "../agent", "TestMessageWithoutARoute",
	},
	{
		"bindings: a spawn that is refused leaves its thread", "../agent/thread.go",
		"\tcase err != nil || info.Key != q.Target:\n", "\tcase false:\n", "../agent",
		"TestSpawnIsRefusedWhenItsThreadIsBound",
	},
	{
		"bindings: an agent that is not there is not focused", "../agent/focus.go",
		"inOurWords(rt.cfg().Rules.CheckAgent(q.Session))", "nil", "../agent",
		"TestFocusOnASessionThatRefuses",
	},
	{
		"bindings: what is switched off is refused before a thread exists", "../agent/thread.go",
		"if off(\"Enabled\", func(s binding.Settings) *bool { return s.Enabled }) ||",
		"if", "../agent", "TestThreadIsRefusedBeforeAnythingExists",
	},
	{
		"bindings: no thread on a channel that is not configured", "../agent/thread.go",
		"\tif len(levels) == 0 {\n\t\tchannels :=", "\tif false {\n\t\tchannels :=", "../agent",
		"TestThreadIsRefusedBeforeAnythingExists",
	},
	{
		"S3 a Key is compared with the place that was asked for", "internal/tree/request.go",
		"return c.digestWithoutPlace() + \"-\" + hex.EncodeToString(sum[:8])",
		"return c.digestWithoutPlace() + \"-\" + hex.EncodeToString(sum[:0])",
		"../agent", "TestKeyOfAnotherRequest",
	},
	{
		"S3 a Key of a library that did not compare the place goes on", "internal/tree/request.go",
		"if ref.Digest == c.digestWithoutPlace() {", "if false {", "./internal/tree",
		"TestSpawnKeyWithoutPlace",
	},
	{
		"bindings: a message that does not say where it comes from has one ID",
		"internal/tree/seen.go", "case to.IsSubagent() && !(p.at", "case false && !(p.at",
		"../agent", "TestMessageOfOneIDWhicheverWayItComes",
	},
	{
		"bindings: a farewell is given up once", "../agent/thread.go",
		"\t\ttried.Said = true\n", "", "../agent", "TestFarewellIsGivenUpOnce",
	},
	{
		"bindings: the ID of a focus is bound", "../agent/focus.go",
		"case rt.cfg().Limits.checkID(q.ID) != nil:", "case false:", "../agent",
		"TestFocusTakesTheIDsOfMessages",
	},
	{
		"bindings: an end that could not be recorded is looked at again", "../agent/bindings.go",
		"redact(err).Error())\n\tb.doubt(root)\n", "redact(err).Error())\n", "../agent",
		"TestStaleBindingEndsAfterTheStoreFailed",
	},
	{
		"bindings: a late thread that cannot be bound is told so", "../agent/thread.go",
		"\t\t\tb.unclaimed(q, binding.ReasonSpawnFailed, err)\n\t\t\treturn\n", "\t\t\treturn\n",
		"../agent", "TestLateThreadWhileTheStoreFails",
	},
	{
		"bindings: a thread that is bound after all is told nothing", "../agent/thread.go",
		"tried.Said || bound {", "tried.Said || u.Begun && bound && false {", "../agent",
		"TestThreadThatIsBoundAfterAll",
	},
	{
		"senders: a wait is that of those for whom it began", "internal/tree/rights.go",
		"all = policy.MergeSenders(all, wait.Senders)", "_ = wait", "./internal/tree",
		"TestSendersOfAWait$",
	},
	{
		"2.1 a run that an input names is kept", "internal/tree/restart.go",
		"i == last || p.held > 0 || join", "i == last || join", "./internal/tree",
		"TestScenarios/followup_held",
	},
	{
		"2.5 the end of a run goes to who has asked for it", "internal/tree/restart.go",
		"\t\t\tto = from\n", "\t\t\t_ = from\n", "./internal/tree",
		"TestScenarios/followup_above",
	},
	{
		"a name in a journal stays", "internal/tree/restart.go",
		"`json:\"siblings,omitempty\"`", "`json:\"sibling,omitempty\"`", "./internal/tree",
		"TestFormatOfVersion2",
	},
}
