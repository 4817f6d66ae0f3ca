package spawn_test

// stepMutants break the rules of announce steps.
var stepMutants = []mutant{
	{
		"announce steps: a run takes one before it ends", "internal/tree/settle.go",
		"if t.wantsStep(r) {", "if false {",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: there is one where people are told", "internal/tree/settle.go",
		"return t.tellsRequester(r, s) || t.tellsPeople(r, s)", "return t.tellsRequester(r, s)",
		"./internal/tree", "TestScenarios/step_update",
	},
	{
		"announce steps: one whose end nothing is told of is not taken", "internal/tree/settle.go",
		"return t.tellsRequester(r, s) || t.tellsPeople(r, s)", "return true",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: one is taken once", "internal/tree/step.go",
		"r.Spec.Step && r.Announced == nil && t.isDone(r)", "r.Spec.Step && t.isDone(r)",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: there is none where no requester is told", "internal/tree/step.go",
		"t.isDone(r) && t.tells(r, OK) &&", "t.isDone(r) &&",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: there is none without a budget", "internal/tree/step.go",
		" && t.turnForbiddenBy(r, requestOf(r)) == \"\"\n", "\n",
		"./internal/tree", "TestScenarios/step_budget",
	},
	{
		"announce steps: there is none when the time of the run is over", "internal/tree/step.go",
		"(r.Deadline == 0 || r.Deadline > t.now)", "true",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: a run that has done its work does not time out", "internal/tree/step.go",
		"!(r.Spec.Step && t.isDone(r))", "true",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: the time of the run does not end one", "internal/tree/step.go",
		" && !r.inStep() &&\n", " &&\n",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: the time of the run does not count one", "internal/tree/step.go",
		"if r.Deadline > 0 {\n\t\tr.Deadline = sat.Add", "if false {\n\t\tr.Deadline = sat.Add",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: one has a time of its own", "internal/tree/step.go",
		"r.Open.Until <= t.now {", "false {",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: the tree wakes at the end of one", "internal/tree/timers.go",
		"\t\t\tatMost(r.Open.Until)\n", "",
		"./internal/tree", "TestStepWakesTheTree",
	},
	{
		"announce steps: a clock that is set back does not lengthen one", "internal/tree/timers.go",
		"if r.inStep() {\n\t\tr.Open.Until = min", "if false {\n\t\tr.Open.Until = min",
		"./internal/tree", "TestScenarios/step_time",
	},
	{
		"announce steps: one that fails does not fail the run", "internal/tree/decide.go",
		"\tcase r.Open.Step:\n\t\tt.endStep(r, c)\n\t\treturn Reply{Run: r}, nil\n", "",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: what a failed one said is not announced", "internal/tree/step.go",
		"if f.State == OK {\n\t\t\tf.Answer.Text", "if true {\n\t\t\tf.Answer.Text",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: a crash of one does not interrupt the run", "internal/tree/decide.go",
		"\t\t\tt.emit(f) // the run has done its work\n\t\t\treturn\n", "\t\t\tt.emit(f)\n",
		"./internal/tree", "TestScenarios/step_crash",
	},
	{
		"announce steps: a silent one tells the requester nothing", "internal/tree/settle.go",
		"r.Silent || r.Announced != nil && r.Announced.Silent", "r.Silent",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: one that is cancelled does not stop the run", "internal/tree/step.go",
		"r.Open, r.Active, r.TurnCancelled = nil, f.At, false",
		"r.Open, r.Active = nil, f.At",
		"./internal/tree", "TestScenarios/step$",
	},
	{
		"announce steps: a message takes back what one has said", "internal/tree/apply.go",
		"\tr.setAnnounced(nil)\n", "",
		"./internal/tree", "TestScenarios/step_input",
	},
	{
		"announce steps: one reads nothing", "internal/tree/decide.go",
		"if err != nil || r.Open.Compact || r.Open.Step {", "if err != nil || r.Open.Compact {",
		"./internal/tree", "TestScenarios/step_input",
	},
	{
		"announce steps: one spawns nothing", "internal/tree/decide.go",
		"case c.Turn > 0 && parent.inStep():", "case false:",
		"./internal/tree", "TestScenarios/step_input",
	},
	{
		"announce steps: one begins nothing", "internal/tree/decide.go",
		"\t\tif r.Open.Step {\n\t\t\treturn Reply{}, announcing(r)\n", "\t\tif false {\n\t\t\treturn Reply{}, announcing(r)\n",
		"./internal/tree", "TestScenarios/step_input",
	},
	{
		"announce steps: a shutdown before one did anything leaves it to the next process",
		"internal/tree/step.go",
		"if f.Flags&FlagUntouched != 0 {", "if false {",
		"./internal/tree", "TestScenarios/step_crash",
	},
	{
		"announce steps: what one said is in the snapshot", "internal/tree/decodeimage.go",
		"\t\tr.Announced = s.announcement()\n", "\t\ts.announcement()\n",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"announce steps: what one said is beside the result", "internal/tree/restart.go",
		"Announced: r.Announced,", "",
		".", "TestAnnounceStep$",
	},
	{
		"announce steps: a journal with one of the top-level session is corrupt",
		"internal/tree/step.go",
		"case r.IsRoot() || !r.Spec.Step:", "case false:",
		"./internal/tree", "TestStepsThatCannotBe",
	},
	{
		"announce steps: a journal with a second one is corrupt", "internal/tree/step.go",
		"case r.Announced != nil:", "case false:",
		"./internal/tree", "TestStepsThatCannotBe",
	},
	{
		"announce steps: a journal with one that reads is corrupt", "internal/tree/step.go",
		"case f.Ord != r.Consumed || r.live > 0 || r.Join != nil:", "case false:",
		"./internal/tree", "TestStepsThatCannotBe",
	},
	{
		"announce steps: only words that one has said are announced", "info.go",
		"a != nil && of.Cause == tree.NoCause {", "a != nil {",
		".", "TestAnnounceStep",
	},
}
