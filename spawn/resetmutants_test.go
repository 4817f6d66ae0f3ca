package spawn_test

// resetMutants are the mutants of resets and compactions.
var resetMutants = []mutant{
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
		"1.11 bytes that were put before a reset are put again", "internal/tree/mail.go",
		"case c.SessionID != \"\" && c.SessionID != r.Spec.SessionID:", "case false:", "./internal/tree", "TestScenarios/reset_crash",
	},
	{
		"1.11 a compaction does not end a wait", "internal/tree/apply.go",
		"\tif compact {\n\t\tt.armTimer(r)\n\t\treturn nil\n\t}\n", "", "./internal/tree", "TestScenarios/compaction_join",
	},
	{
		"1.11 no other owner is due for a compaction that a caller waits for",
		"internal/tree/tree.go", "t.root.owesTurn(t.now) ||", "t.root.wantsTurn(t.now) ||",
		"./internal/tree", "TestScenarios/compaction_due",
	},
	{
		"1.11 a compaction consumes nothing", "internal/tree/reset.go",
		"turnStarted(t.now, r, r.Consumed, 0, t.reserve(r, \"\"))", "turnStarted(t.now, r, r.NextOrd, 0, t.reserve(r, \"\"))",
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
		"f.Answer = a.usageAlone()", "f.Answer = a", "./internal/tree", "TestScenarios/compaction$",
	},
	{
		"1.11 a compaction is cancelled before it begins", "internal/tree/decide.go",
		"\tif r.Open == nil {\n\t\tt.answerAll(&r.wish().compact, ErrTurnCancelled)\n\t}\n", "",
		"./internal/tree", "TestScenarios/compaction$",
	},
}
