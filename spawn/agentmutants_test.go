package spawn_test

// agentMutants are those of package agent: what sub-agents are given, where they work, and the
// programs that run them.
var agentMutants = []mutant{
	{
		"cluster: a tool waits until the process may act", "../agent/tool.go",
		"if err := t.spawn.MayAct(ctx); err != nil {", "if err := t.err(); err != nil {",
		"../agent/agenttest", "TestFormerOwnerDoesNothing",
	},
	{
		"cluster: a line waits until the process may act", "../agent/transcript.go",
		"err := r.mayAct(ctx)", "var err error", "../agent/agenttest",
		"TestFormerOwnerDoesNothing",
	},
	{
		"cluster: a file waits until the process may act", "../agent/parts.go",
		"\tif err := r.mayAct(ctx); err != nil {\n\t\treturn p, err\n\t}\n", "",
		"../agent/agenttest", "TestFormerOwnerDoesNothing",
	},
	{
		"a steer that came too late is told at the end", "internal/tree/inbox.go",
		"\t\t\t\tr.ownRare().Missed++\n", "", "../agent", "TestSteerThatIsMissed/missed",
	},
	{
		"a shutdown has one grace period", "../agent/runtime.go",
		"grace = min(grace, max(time.Until(end), lateGrace))", "_ = end", "../agent",
		"TestShutdownOverADeafStore/Journal.Append_Shutdown_with_threads",
	},
	{
		"errors: that of a Runner is read where its panic is contained", "../agent/turnrunner.go",
		"return res, contain.Read(err)", "return res, err", "../agent", "TestBadErrorsInATurn",
	},
	{
		"errors: that of a tool is read where its panic is contained", "../agent/tool.go",
		"\t_ = contain.Read(run.err)\n", "", "../agent", "TestBadErrorsInATurn/tool,_exit",
	},
	{
		"errors: what an error of a receiver wraps has an end", "../agent/runtime.go",
		"(contain.Read(err))", "(err)", "../agent", "TestBadErrorsOutsideOfTurns/Reply,_exit",
	},
	{
		"relay: that it works again is told", "../agent/runtimes.go",
		"tell = r.add(tell, \"It works again.\")", "tell = nil", "../agent", "TestRelay$",
	},
	{
		"relay: what was said is passed on after a pause", "../agent/runtimes.go",
		"return relayPause << min(", "return 10 * relayPause << min(", "../agent", "TestRelay$",
	},
	{
		"relay: much is passed on at once", "../agent/runtimes.go",
		"enough := utf8.RuneCountInString(r.said) >= relayRunes ||", "enough :=",
		"../agent", "TestRelay$",
	},
	{
		"relay: a paragraph is passed on at once", "../agent/runtimes.go",
		" || strings.Contains(r.said, \"\\n\\n\")", " || strings.Contains(r.said, \"\\n\\n\\n\")", "../agent", "TestRelay$",
	},
	{
		"relay: an update is short", "../agent/runtimes.go",
		"\t\tshown = \"... \" + string([]rune(shown)[n-relayRunes:])\n", "", "../agent", "TestRelay$",
	},
	{
		"relay: no thought is passed on", "../agent/runtimes.go",
		"shown, visible := announce.Visible(r.said)", "shown, visible := r.said, true",
		"../agent", "TestRelay$",
	},
	{
		"relay: it must be asked for", "../agent/turnrunner.go",
		"\tif t.stream {\n", "\tif true {\n", "../agent", "TestRelay$",
	},
	{
		"relay: six hours are its life", "../agent/runtimes.go",
		"relayLife  = 6 * time.Hour", "relayLife  = 60 * time.Hour", "../agent", "TestRelayIsBounded",
	},
	{
		"relay: it slows down", "../agent/runtimes.go",
		"<< min(r.updates/relaySlower, 8)", "<< min(0, r.updates/relaySlower)",
		"../agent", "TestRelayIsBounded",
	},
	{
		"relay: some milestones are left for the Runner", "../agent/runtimes.go",
		"r.updates >= relayMost {", "r.updates >= 10*relayMost {", "../agent", "TestRelayIsBounded",
	},
	{
		"8.1 a runtime is configured", "../agent/runtimes.go",
		"\tcase !ok:\n", "\tcase !ok && false:\n", "../agent", "TestRuntimeCases/8.1_",
	},
	{
		"8.2 a runtime is for all agents unless it names some", "../agent/runtimes.go",
		"return x.Agents == nil || slices.ContainsFunc", "return slices.ContainsFunc",
		"../agent", "TestRuntimeRunsSubagents",
	},
	{
		"8.3 a runtime is for the agents that it names", "../agent/runtimes.go",
		"case !x.runsAgent(strings.TrimSpace(agent)):", "case false:",
		"../agent", "TestRuntimeCases/8.3",
	},
	{
		"8.4 a sandbox has no runtime", "../policy/admit.go",
		"if q.Runtime != \"\" && sandboxed {", "if false {", "../agent", "TestRuntimeCases/8.4",
	},
	{
		"8.5 an agent in a sandbox has no runtime", "../policy/admit.go",
		"if q.Runtime != \"\" && sandboxed {", "if q.Runtime != \"\" && c.Sandboxed {",
		"../agent", "TestRuntimeCases/8.5",
	},
	{
		"8.6 streamTo is for a runtime", "../agent/runtimes.go",
		"case name == \"\" && t.Stream:", "case false:", "../agent", "TestRuntimeCases/8.6",
	},
	{
		"8.13 a runtime runs the turns", "../agent/runtimes.go",
		"\tif t.Runtime == \"\" {\n", "\tif true {\n", "../agent", "TestRuntimeCases/8.13",
	},
	{
		"8.13 the runtime is part of a task", "../agent/runtimes.go",
		"\t\treturn fmt.Sprintf(\" runtime %q stream %t\", name, t.Stream)\n", "\t\t_ = name\n",
		"../agent", "TestRuntimeOfAKey",
	},
	{
		"a session in a sandbox is not told of runtimes", "../agent/runtimes.go",
		"\tif caller.Sandboxed {\n", "\tif false {\n", "../agent", "TestPromptsTellOfRuntimes",
	},
	{
		"attachments go after a run", "../agent/workdir.go",
		"if !q.Archive && !q.Delete && rt.cfg().Rules.Attachments.Retain {", "if !q.Archive {",
		"../agent", "TestAttachmentsInADirectory",
	},
	{
		"attachments are kept if the rules say so", "../agent/workdir.go",
		"if !q.Archive && !q.Delete && rt.cfg().Rules.Attachments.Retain {", "if false {",
		"../agent", "TestAttachmentsInADirectory/retained",
	},
	{
		"attachments go with the archive", "../agent/workdir.go",
		"err = rt.removeAttachments(ctx, q.Session, x)\n",
		"if !q.Archive {\n\t\terr = rt.removeAttachments(ctx, q.Session, x)\n\t}\n",
		"../agent", "TestAttachmentsInADirectory/retained",
	},
	{
		"attachments are not written behind the archive", "../agent/internal/thread/locks.go",
		"\t\tif ctx.Err() == nil {\n", "\t\tif true {\n", "../agent/internal/thread",
		"TestNoLockForWhatIsDone",
	},
	{
		"attachments are in a directory that others cannot change",
		"../agent/internal/workdir/files.go", "if err == nil && private {", "if false {",
		"../agent/internal/workdir", "TestDirectoriesOfOthersAreNotUsed",
	},
	{
		"the mark of attachments is written last", "../agent/internal/workdir/files.go",
		"append(slices.Clip(files), mark)", "append([]Content{mark}, slices.Clip(files)...)",
		"../agent/internal/workdir", "TestMarkIsLast",
	},
	{
		"empty directories of attachments go", "../agent/internal/workdir/files.go",
		"\tif err == nil {\n\t\tprune(root, path.Dir(dir))\n\t}\n", "",
		"../agent/internal/workdir", "TestEmptyDirectoriesGo",
	},
	{
		"a purge finds the files of a session without lines", "archive.go",
		"begins, err = hasFiles(ctx, s.cfg.Store.Files, job.ref)", "begins = false",
		"../agent", "TestAttachmentsOfAnEarlierLibrary",
	},
	{
		"a preview tells of attachments", "../agent/promptinput.go",
		"tellAttachments(&in, attachedDir(line.Key, kid.place), kid.files)", "_ = kid.files",
		"../agent", "TestChildInputTellsOfAttachments",
	},
}
