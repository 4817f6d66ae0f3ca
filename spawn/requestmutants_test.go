package spawn_test

// requestMutants are the mutants of what is decided for requests, and for what waits leave over.
var requestMutants = []mutant{
	{
		"2.7 what a wait leaves over is announced", "internal/tree/restart.go",
		"\treturn r.Spec.Announce || r.Announce\n", "\treturn r.Spec.Announce\n", "../agent", "TestRestOfAJoin",
	},
	{
		"2.7 what a yield leaves over is announced", "internal/tree/decide.go",
		"\t\tt.endWait(r)\n\t}\n\trequest", "\t}\n\trequest", "../agent", "TestRestOfAYield",
	},
	{
		"2.7 a wait that a person takes back is over", "internal/tree/decide.go",
		"\t\tt.endWait(r)\n\t\tt.emit(setAside", "\t\tt.emit(setAside", "./internal/tree", "TestScenarios/rest_announce",
	},
	{
		"2.7 a wait that goes on leaves nothing over", "internal/tree/join.go",
		"if j == nil || j.Rest == RestKeep || !j.Ready(t.now) {", "if j == nil || j.Rest == RestKeep {",
		"./internal/tree", "TestScenarios/rest_announce",
	},
	{
		"2.7 a run is seen to have ended or is announced", "internal/tree/join.go",
		"\t\treply.Stood[i] = &stood\n", "\t\treply.Stood[i] = r\n", "./internal/tree", "TestRestStandsAsItWasDecided",
	},
	{
		"2.7 the run that was waited for is announced", "internal/tree/join.go",
		"!r.State.Terminal() && r.RunID() == c.Runs[i] {", "!r.State.Terminal() {", "./internal/tree", "TestScenarios/rest_announce",
	},
	{
		"2.7 what a wait stops is what it waited for", "internal/tree/join.go",
		"case j.Rest == RestStop && c.Cause == NoCause:", "case j.Rest == RestStop && false:", "./internal/tree", "TestScenarios/rest_stop",
	},
	{
		"2.13 a request has a budget", "internal/tree/budget.go",
		"\t\tif request != \"\" {\n", "\t\tif false {\n", "./internal/tree", "TestScenarios/request_budget$",
	},
	{
		"2.13 no turn reserves more than its request has left", "internal/tree/budget.go",
		"yield(account{BudgetOf(t.rules.RequestBudget), t.chargedFor(r, request), nil})",
		"yield(account{BudgetOf(t.rules.RequestBudget), Budget{}, nil})", ".", "TestHistories$",
	},
	{
		"2.13 a turn of the top-level session is charged to its request", "internal/tree/apply.go",
		"\tt.chargeRequest(r, requestOf(r), f.Budget())\n", "", ".", "TestHistories$",
	},
	{
		"2.13 a turn begins with what its own request has left", "internal/tree/decide.go",
		"request, _, _ := t.nextRequest(r, r.Consumed, through, true)", "request := requestOf(r)", "./internal/tree", "TestScenarios/request_budget$",
	},
	{
		"2.13 a turn goes on for the request of a newer message", "internal/tree/apply.go",
		"\t\t\tr.Open.leave(before)\n", "\t\t\t_ = before\n", "./internal/tree", "TestScenarios/request_budget_taken",
	},
	{
		"2.13 each request pays for what was reserved for it", "internal/tree/budget.go",
		"\t\tpart := used.atMost(s.Reserve)\n", "\t\tpart := s.Reserve\n", "./internal/tree", "TestTurnAtTwoRequests",
	},
	{
		"2.13 what a turn reserved for another request is not left for a call", "internal/tree/budget.go",
		"\t\t\tunspent = unspent.atMost(r.Open.present())\n", "", "./internal/tree", "TestTurnAtTwoRequests",
	},
	{
		"2.13 a request knows what the run was charged that begins it", "internal/tree/request.go",
		"\t\t\tn.charged = n.charged.Add(r.Charged)\n", "", "./internal/tree", "TestScenarios/request_budget_own",
	},
	{
		"2.13 a snapshot has what requests were charged", "internal/tree/request.go",
		"n.byModel > 0 || n.charged != own[name]", "n.byModel > 0", "./internal/tree", "TestScenarios/request_budget$",
	},
	{
		"2.13 a spawn is refused by the request that it belongs to", "internal/tree/decide.go",
		"t.chargedFor(parent, request))", "t.chargedFor(parent, requestOf(parent)))", "./internal/tree", "TestScenarios/request_budget_caller",
	},
	{
		"2.13 a later run of a session is of a request of its own", "internal/tree/request.go",
		"\t\tt.keepBegun(r) // what the session was charged before is not of this request\n", "", "./internal/tree", "TestScenarios/request_budget_later",
	},
	{
		"2.13 a compaction works for no request", "internal/tree/budget.go",
		"\tif r.Open != nil && r.Open.Compact {\n", "\tif false {\n", "./internal/tree", "TestScenarios/request_budget_compact",
	},
	{
		"2.13 a request that was charged nothing stays so", "internal/tree/request.go",
		"return c.Uncharged || c.ByModel == 0 || c.", "return c.", "./internal/tree",
		"TestScenarios/request_uncharged",
	},
}
