package spawn_test

// depositMutants are the mutants of what becomes of files that are put for a run before it is.
var depositMutants = []mutant{
	{
		"what a caller does not spawn with is removed", "internal/tree/deposit.go",
		"\t\t\tw.held = false\n", "", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"what an owner before has begun is removed", "internal/tree/decide.go",
		"t.archiving, t.unbinding, t.deposits = 0, nil, nil",
		"t.archiving, t.unbinding = 0, nil", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"a run whose files are gone is not spawned", "internal/tree/decide.go",
		"case c.Files && !t.holdsDeposit(spec.Key):", "case false:",
		"./internal/tree", "TestScenarios/deposit",
	},
	{
		"a deposit ends with the admission", "internal/tree/apply.go",
		"\tt.endDeposit(s.Key)\n", "", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"a tree with a deposit needs an owner", "internal/tree/tree.go",
		"\t\tlen(t.root.Deposits) > 0 ||\n", "", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"a removal that failed is tried again", "internal/tree/timers.go",
		"\t\tatMost(t.wakeOfDeposits())\n", "", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"a known key is compared when the files are known", "internal/tree/request.go",
		"if c.Files && c.Dry {", "if c.Files {", "./internal/tree", "TestScenarios/deposit",
	},
	{
		"a tree stays in memory while files are put", "internal/owner/timer.go",
		" ||\n\t\to.tree.Depositing() {", " {", ".", "TestDepositThatTakesLong",
	},
	{
		"what is put is given up however the caller ends", "deposit.go",
		"\tdefer all.leave()\n", "", ".",
		"TestDeposit",
	},
	{
		"what is still being put is not given up", "deposit.go",
		"\td.puts.left.Add(1)\n", "\td.puts.left.Add(0)\n", ".", "TestDepositThatHangs",
	},
	{
		"files of a spawn that is refused are removed", "deposit.go",
		"err = s.cfg.Store.Files.Remove(ctx, ref)", "_ = ref", "../agent",
		"TestNothingOfAttachmentsStaysOverCrashes",
	},
	{
		"a former owner is kept out", "deposit.go",
		"if s.cfg.Store.Transcripts != nil && !d.Own {", "if false {", ".",
		"TestDepositOfAFormerOwner",
	},
	{
		"what was read of an attachment is not its size", "../agent/internal/attach/content.go",
		`return &SizeError{index, "MaxFileBytes", 0, l.FileBytes}`,
		`return &SizeError{index, "MaxFileBytes", read, l.FileBytes}`, "../agent",
		"TestSizesOfAttachmentsThatAreOverALimit",
	},
	{
		"the digest of attachments never changes", "../agent/attachment.go",
		"SessionID string        `json:\"session\"`",
		"SessionID string        `json:\"session,omitempty\"`", "../agent",
		"TestAttachmentsOfAnEarlierLibrary",
	},
	{
		"attachments of an earlier library are brought", "../agent/attachment.go",
		"\tif a.SessionID == \"\" {\n\t\treturn nil\n\t}\n", "\treturn nil\n", "../agent",
		"TestAttachmentsOfAnEarlierLibrary",
	},
}
