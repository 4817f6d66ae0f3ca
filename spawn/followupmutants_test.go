package spawn_test

// followUpMutants leave out one rule each of those that admit a follow-up.
var followUpMutants = []mutant{
	{
		"2.6 a follow-up: it is not another child", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n", "",
		"./internal/tree", "TestFollowUpBesideALimit/spawned",
	},
	{
		"2.6 a follow-up: active children count", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n",
		"\tcaller.Spawned, caller.Children = 0, 0\n",
		"./internal/tree", "TestFollowUpUnderEachRule/active",
	},
	{
		"2.6 a follow-up: it counts as a run of the tree", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n",
		"\tcaller.Spawned, caller.TreeRuns = 0, 0\n",
		"./internal/tree", "TestFollowUpUnderEachRule/runs_of_the_tree",
	},
	{
		"2.6 a follow-up: blocked completions refuse it", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n",
		"\tcaller.Spawned, caller.Blocked = 0, 0\n",
		"./internal/tree", "TestFollowUpUnderEachRule/blocked",
	},
	{
		"2.6 a follow-up: the budget of the tree is one", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n",
		"\tcaller.Spawned, caller.Budget = 0, t.rules.Budget\n",
		"./internal/tree", "TestFollowUpUnderEachRule/budget_of_the_tree",
	},
	{
		"2.6 a follow-up: the depth of its session counts", "internal/tree/restart.go",
		"t.policyCaller(r.Parent, rules, nil)", "t.policyCaller(t.root, rules, nil)",
		"./internal/tree", "TestFollowUpUnderEachRule/depth",
	},
	{
		"2.6 a follow-up: the sandbox above it holds", "internal/tree/restart.go",
		"\tcaller.Spawned = 0 // it is not another child\n",
		"\tcaller.Spawned, caller.Sandboxed = 0, false\n",
		"./internal/tree", "TestFollowUpUnderEachRule/sandbox",
	},
	{
		"2.6 a follow-up: a model's counts for its request", "internal/tree/restart.go",
		"caller.Requested = int(t.requests.Of(begin.Request).byModel)", "caller.Requested = 0",
		"./internal/tree", "TestFollowUpUnderEachRule/runs_of_a_request",
	},
	{
		"2.6 a follow-up: it is counted where a model asks", "internal/tree/restart.go",
		"Child: r.Key(), ByModel: begin.ByModel,", "Child: r.Key(),",
		"./internal/tree", "TestFollowUpUnderEachRule/runs_of_a_request",
	},
	{
		"2.6 a follow-up: a program's is not counted", "internal/tree/restart.go",
		"Child: r.Key(), ByModel: begin.ByModel,", "Child: r.Key(), ByModel: true,",
		"./internal/tree", "TestFollowUpBesideALimit/a_program",
	},
	{
		"2.6 a follow-up: the budget of its request is one", "internal/tree/restart.go",
		"t.chargedFor(t.find(begin.From), begin.Request))", "Budget{})",
		"./internal/tree", "TestFollowUpUnderEachRule/budget_of_the_request",
	},
	{
		"2.6 a follow-up: its agent must be allowed", "internal/tree/restart.go",
		"\t\tAgent: r.Spec.Agent, Child:", "\t\tChild:",
		"./internal/tree", "TestFollowUpUnderEachRule/allowed",
	},
	{
		"2.6 a follow-up: its agent must be configured", "internal/tree/restart.go",
		"\t\tAgent: r.Spec.Agent, Child:", "\t\tChild:",
		"./internal/tree", "TestFollowUpUnderEachRule/configured",
	},
	{
		"2.6 a follow-up: a sandbox is asked for by its key", "internal/tree/restart.go",
		"Child: r.Key(), ByModel: begin", "ByModel: begin",
		"./internal/tree", "TestFollowUpAsksForTheSandbox",
	},
	{
		"2.6 a follow-up: nothing begins without an answer", "internal/tree/restart.go",
		"if open := asker.missing(); open != nil {", "if open := asker.missing(); false {",
		"./internal/tree", "TestFollowUpAsksForTheSandbox",
	},
	{
		"2.6 a follow-up: what refuses a spawn refuses it", "internal/tree/restart.go",
		"\tif err != nil {\n\t\treturn err\n\t}\n\tif what := t.turn",
		"\tif err != nil && false {\n\t\treturn err\n\t}\n\tif what := t.turn",
		"./internal/tree", "TestFollowUpUnderEachRule/active",
	},
	{
		"2.6 a follow-up: the budget of its session is one", "internal/tree/restart.go",
		`what := t.turnForbiddenBy(r, ""); what != "" {`,
		`what := t.turnForbiddenBy(r, ""); false {`,
		"./internal/tree", "TestFollowUpUnderEachRule/budget_of_the_session",
	},
	{
		"2.6 a follow-up: the budgets above it count", "internal/tree/restart.go",
		`what := t.turnForbiddenBy(r, ""); what != "" {`,
		`what := t.limit(r).Exhausted(r.Charged); what != "" {`,
		"./internal/tree", "TestFollowUpUnderEachRule/budget_of_a_session_above",
	},
	{
		"2.3 a follow-up is refused by the topmost session that has ended", "internal/tree/restart.go",
		"\t\t\tended = x\n", "\t\t\tended = cmp.Or(ended, x)\n",
		"./internal/tree", "TestScenarios/followup_named",
	},
	{
		"2.3 no run begins below a top-level session that is to end", "internal/tree/restart.go",
		"case root.Cause != NoCause:", "case root.Cause != NoCause && false:",
		"./internal/tree", "TestScenarios/followup_named",
	},
	{
		"2.1 a run has an id of its own", "internal/tree/restart.go",
		"_, known := r.RunOf(c.RunID); known {", "_, known := r.RunOf(c.RunID); known && false {",
		"./internal/tree", "TestScenarios/followup_named",
	},
	{
		"2.1 a run that a wait names is kept", "internal/tree/restart.go",
		"|| join != nil && join.names(r.key, p.name()) {", "|| join != nil && false {",
		"./internal/tree", "TestScenarios/followup_named",
	},
	{
		"2.2 a later run has read what came before its input", "internal/tree/restart.go",
		"\tconsumed := f.Ord - 1\n", "\tconsumed := r.Consumed\n",
		"./internal/tree", "TestHistories",
	},
	{
		"2.5 the end of a later run is answered where it was asked for", "internal/tree/restart.go",
		"\t\t\tbegin.Route = from.Route\n", "", "./internal/tree", "TestScenarios/followup_route",
	},
	{
		"2.6 a later run has the first grant", "internal/tree/restart.go",
		"\t\tSpec: r.Spec, State: Queued, Begin: b,",
		"\t\tSpec: &Spec{ID: r.Spec.ID, Key: r.Spec.Key, Parent: r.Spec.Parent, SessionID: r.Spec.SessionID, Grant: &Grant{Agent: r.Spec.Agent, Depth: r.Spec.Depth}}, State: Queued, Begin: b,",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"2.6 a later run works for those of the runs before", "internal/tree/restart.go",
		"policy.MergeSenders(r.everSenders(), c.Senders)", "c.Senders",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"auditor: a snapshot keeps the first grant", "spawntest/audit_snapshot.go",
		"\t\ta.keepsGrant(r, s)\n", "",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"auditor: a snapshot to begin with grants what may be", "spawntest/audit_snapshot.go",
		"\t\t\ta.within(p, r)\n", "",
		"./spawntest", "TestAuditOfGrantsInTheFirstSnapshot",
	},
	{
		"auditor: a later run works for those of the runs before", "spawntest/audit_run.go",
		"\ta.keepsPeople(r, f)\n", "",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"auditor: 2.3 no run begins below an ended session", "spawntest/audit_run.go",
		"\t\tif x.state.Terminal() {\n\t\t\ta.fail(r, \"runs below",
		"\t\tif false {\n\t\t\ta.fail(r, \"runs below",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"auditor: 2.1 each run has an id of its own", "spawntest/audit_run.go",
		" || b.ID == r.spec.ID || r.completionOf(b.ID) != nil:", ":",
		"./spawntest", "TestAuditOfFollowUps",
	},
	{
		"auditor: 2.1 a completion is consumed once for each run", "spawntest/audit_turn.go",
		"\tif c.where != from {\n", "\tif false {\n",
		"./spawntest", "TestAuditOfACompletionTwice",
	},
}
