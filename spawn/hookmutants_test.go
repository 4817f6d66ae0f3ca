package spawn_test

// hookMutants are the mutants of hooks.
var hookMutants = []mutant{
	{
		"hooks: each end is told", "internal/tree/settle.go",
		"\t\tflags |= FlagHook\n", "", "./internal/tree", "TestScenarios/hook$",
	},
	{
		"hooks: a hook is a destination of its own", "internal/tree/outbox.go",
		"case e.Hook:\n\t\treturn Destination{Hook: true}", "case false:\n\t\treturn Destination{}",
		"./internal/tree", "TestScenarios/hook$",
	},
	{
		"hooks: the archive waits", "internal/tree/restart.go",
		"return r.held+r.hooks > 0 ||\n", "return r.held > 0 ||\n",
		"./internal/tree", "TestScenarios/hook$",
	},
	{
		"hooks: a conversation does not wait", "internal/tree/outbox.go",
		"if !e.Hook || e.RunID != r.runName() {", "if true {",
		"./internal/tree", "TestScenarios/hook_bound",
	},
	{
		"hooks: an end is not redirected", "internal/tree/outbox.go",
		"return !e.Reply && !e.Hook && !e.Update", "return !e.Reply && !e.Update",
		"./internal/tree", "TestScenarios/hook_crash",
	},
	{
		"hooks: without one nothing waits for it", "internal/tree/decide.go",
		"case e.Hook && !t.opt.Ends:", "case false:",
		"./internal/tree", "TestScenarios/hook_crash",
	},
	{
		"hooks: an end that is owed is in the snapshot", "internal/tree/decodeimage.go",
		"\t\t\te.Hook = s.bool()\n", "\t\t\ts.bool()\n",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"hooks: a run that a hook is to hear of is kept", "internal/tree/restart.go",
		"held: int(r.held + r.hooks),", "held: int(r.held),",
		"./internal/tree", "TestScenarios/hook$",
	},
	{
		"hooks: a spawn is asked for once the rules admit it", "internal/tree/decide.go",
		"if t.opt.AskSpawns && !c.isAsked(t.rules) && ", "if t.opt.AskSpawns && ",
		".", "TestSpawningIsAskedOnce",
	},
	{
		"hooks: a hook that hangs refuses the spawn", "hook.go",
		"\ttimer := time.AfterFunc(HookTimeout, ", "\ttimer := time.AfterFunc(time.Hour, ",
		".", "TestSpawningThatHangs",
	},
	{
		"hooks: a hook is not busy", "sender.go",
		"r.busy && !to.Hook", "r.busy",
		".", "TestEndedIsNotBusy",
	},
	{
		"hooks: a call of a hook has ten seconds", "sender.go",
		"\t\tlimit = HookTimeout\n", "", ".", "TestEndedIsNotBusy",
	},
}
