package spawn_test

// collectMutants are those of several deliveries in one call.
var collectMutants = []mutant{
	{
		"3.4 what arrives in one call has arrived", "internal/tree/outbox.go",
		"\tfor _, ord := range c.More {\n\t\tif t.outbox.entries[ord] != nil {",
		"\tfor _, ord := range c.More[:0] {\n\t\tif t.outbox.entries[ord] != nil {",
		".", "TestCollectAfterBusy",
	},
	{
		"3.4 after a call that failed each may have arrived", "internal/tree/outbox.go",
		"\tt.settleMore(c)\n", "", ".", "TestCollectedCallThatFails",
	},
	{
		"3.4 a receiver that is busy has taken nothing", "internal/tree/outbox.go",
		"\tif c.Busy {\n\t\treturn\n\t}\n\tfor _, ord := range c.More",
		"\tfor _, ord := range c.More",
		"./internal/tree", "TestScenarios/order_collect",
	},
	{
		"3.4 a pause counts once", "internal/tree/outbox.go",
		"\t\tif c.Wait > 0 {\n\t\t\tt.emit(outboxFact(Deferred, t.now, ord, t.now, short))\n\t\t\tcontinue\n\t\t}\n",
		"", "./internal/tree", "TestScenarios/order_collect",
	},
	{
		"3.4 what has come while a session was busy comes in one call", "internal/tree/outbox.go",
		"q.since > 0 && !q.pending[0].Busy", "(q.since > 0 || e.HeldBy() != nil)",
		".", "TestCollectAfterBusy",
	},
	{
		"3.4 a call has a bounded number", "queuemode.go",
		"for len(more) < MaxCollected-1 {", "for {", ".", "TestCollectIsBounded",
	},
	{
		"3.4 a call that arrives late has arrived with all that was in it", "sender.go",
		"\t\toutcome.More = more\n", "", ".", "TestCollectedCallThatArrivesLate",
	},
}
