package spawn_test

// rulesMutants keep something of rules in whose place others have come.
var rulesMutants = []mutant{
	{
		"rules: what a tree has decided under others is dropped", "internal/tree/tree.go",
		"\t\tr.rights = nil\n\t\tt.armTimer(r)\n", "\t\tt.armTimer(r)\n", "../agent",
		"TestRulesOfNowHoldAlongTheLineage",
	},
	{
		"rules: an archive has the time of others", "internal/tree/tree.go",
		"\t\tr.rights = nil\n\t\tt.armTimer(r)\n", "\t\tr.rights = nil\n", "../agent",
		"TestSetRulesArchive",
	},
	{
		"rules: a round knows those of now", "internal/owner/owner.go",
		"\to.tree.Heed()\n", "", "../agent", "TestSetRulesTakesAllOrNothing",
	},
	{
		"rules: a turn does not keep what it might", "turn.go",
		"if known.rules == rules && sameSenders(known.of, of) {",
		"if sameSenders(known.of, of) {", "../agent", "TestRulesOfNowHoldAlongTheLineage",
	},
	{
		"rules: what is left to a turn is within what was granted", "turn.go",
		"t.shell.sup.authority(ctx, rules, root, t.lineage)",
		"t.shell.sup.authority(ctx, rules, root, nil)", "../agent",
		"TestRulesOfNowHoldAlongTheLineage",
	},
	{
		"rules: slots are those of now", "supervisor.go",
		"\ts.lane.SetLimits(rules.MaxConcurrent(), rules.SessionLimit())\n", "", "../agent",
		"TestSetRulesSlots",
	},
	{
		"rules: a budget that comes later holds", "turn.go",
		"if enough || !t.Budgeted() {", "if enough || !t.limited {", "../agent",
		"TestSetRulesBudget",
	},
	{
		"rules: a hook is asked about the run that comes of them", "internal/tree/decide.go",
		"return c.Asked && (c.AskedOf == nil || c.AskedOf == rules)", "return c.Asked",
		"../agent", "TestSetRulesAskTheHookAgain",
	},
	{
		"rules: the tools of a caller are asked about anew", "../agent/session.go",
		"if !slices.Contains(now.Tools, tool.Name) { // the rules", "if false { // the rules",
		"../agent", "TestToolsOfACallerObeyTheRulesOfNow",
	},
	{
		"rules: a Loop offers what is left", "../agent/tool.go",
		"if t.offered.rules == &cfg.Rules || t.Announces {", "if true {", "../agent",
		"TestLoopOffersToolsOfTheRulesOfNow",
	},
	{
		"rules: a mistake takes none of them", "../agent/runtime.go",
		"\tdoubts, err := next.validateRules()\n",
		"\t_ = rt.sup.SetRules(&next.Rules)\n\tdoubts, err := next.validateRules()\n", "../agent",
		"TestSetRulesTakesAllOrNothing",
	},
}
