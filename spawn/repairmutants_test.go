package spawn_test

// repairMutants are the mutants of answers that are refused.
var repairMutants = []mutant{
	{
		"repairs: a run does not end well with an answer that was refused",
		"internal/tree/settle.go", "if r.isRefused() {", "if false {",
		"./internal/tree", "TestScenarios/repair$",
	},
	{
		"repairs: there are at most two", "internal/tree/repair.go",
		"if r.Repairs < MaxRepairs {", "if true {",
		"./internal/tree", "TestScenarios/repair_fails",
	},
	{
		"repairs: they are counted in the snapshot", "internal/tree/decodeimage.go",
		"\t\tr.Repairs = s.uint8()\n", "\t\ts.uint8()\n",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"repairs: a repair starts a turn", "internal/tree/settle.go",
		" || r.nRepair > 0\n", "\n", "./internal/tree", "TestScenarios/repair$",
	},
	{
		"repairs: a run that failed for its answer is a failure", "internal/tree/state.go",
		"case RunnerFailed, AnswerRefused:", "case RunnerFailed:",
		"./internal/tree", "TestScenarios/repair_fails",
	},
	{
		"repairs: what people are told is not repaired", "internal/tree/repair.go",
		` && !r.inThread()`, "", "./internal/tree", "TestScenarios/repair_thread",
	},
	{
		"repairs: a conversation is not read with a repair", "internal/tree/inbox.go",
		"in.Class == Control && !in.Repair || ", "in.Class == Control || ",
		"./internal/tree", "TestScenarios/repair_thread",
	},
	{
		"repairs: a repair is not a steer", "internal/tree/inbox.go",
		"if f.Class == Control && !repair {", "if f.Class == Control {",
		"./internal/tree", "TestRepairIsNotASteer",
	},
	{
		"repairs: a journal with a third one is corrupt", "internal/tree/repair.go",
		"case r.Repairs >= MaxRepairs:", "case false:",
		"./internal/tree", "TestRepairsThatCannotBe",
	},
	{
		"repairs: a journal with one of nothing is corrupt", "internal/tree/repair.go",
		"case r.IsRoot() || r.Open != nil || f.Class != Control || !r.isRefused():", "case false:",
		"./internal/tree", "TestRepairsThatCannotBe",
	},
	{
		"repairs: a later run has its own", "internal/tree/restart.go",
		"Spec: r.Spec, State: Queued,", "Repairs: r.Repairs, Spec: r.Spec, State: Queued,",
		"./internal/tree", "TestScenarios/repair$",
	},
}
