package spawn_test

// archiveMutants are the mutants of what is decided for archives, deletions and revivals.
var archiveMutants = []mutant{
	{
		"a late archive of a former process does not take back what was done since", "archive.go",
		"\tcase archived.Image().Runs[0].Turns < ",
		"\tcase false && archived.Image().Runs[0].Turns < ", ".", "TestLateArchiveOfAFormerProcess",
	},
	{
		"what was made for a run stays until its end was read", "internal/tree/archive.go",
		"len(r.Spec.Extra()) > 0 && !r.isHeld() &&",
		"len(r.Spec.Extra()) > 0 &&", "./internal/tree", "TestScenarios/tidy",
	},
	{
		"what was made for a run goes once", "internal/tree/archive.go",
		"\t\tr.tidied = true\n",
		"", "./internal/tree", "TestScenarios/tidy",
	},
	{
		"2.4 what is being archived takes nothing more", "internal/tree/archive.go",
		"return r.Archiving != 0 || r.Discard",
		"return r.Discard", "./internal/tree", "TestScenarios/archive_begun",
	},
	{
		"2.4 an archive begins with a fact", "internal/tree/archive.go",
		"\tif r.Archiving == 0 {\n",
		"\tif false {\n", "./internal/tree", "TestScenarios/archive",
	},
	{
		"2.4 nothing calls an archive off", "internal/tree/archive.go",
		"\tcase r.Archiving != 0:\n\t\treturn true\n",
		"", "./internal/tree", "TestScenarios/archive_off",
	},
	{
		"2.12 what is below what is below goes with it, too", "internal/tree/archive.go",
		"if !r.hastened && r.hastens() {",
		"if !r.hastened && r.hastens() && len(r.Bound) == 0 {",
		"./internal/tree", "TestScenarios/delete_below",
	},
	{
		"2.12 what is below goes too when a conversation lets go of it", "internal/tree/bound.go",
		"\tr.hastened = false\n",
		"", "./internal/tree", "TestScenarios/delete_bound",
	},
	{
		"2.12 a sub-agent that is deleted is not reset", "internal/tree/reset.go",
		"!(r.IsRoot() && r.Discard)", "!r.Discard", "./internal/tree", "TestScenarios/delete_twice",
	},
	{
		"2.12 what is deleted does not wait", "internal/tree/archive.go",
		"return r.Discard || r.Spec.Delete || r.Parent.hastens()",
		"return r.Discard || r.Parent.hastens()", "./internal/tree", "TestScenarios/delete",
	},
	{
		"2.12 what is below goes with it", "internal/tree/archive.go",
		"\tfor x := r; !x.IsRoot(); x = x.Parent {\n\t\tif x.State.Terminal() && (",
		"\tfor x := r; false; x = x.Parent {\n\t\tif x.State.Terminal() && (", "./internal/tree", "TestScenarios/delete",
	},
	{
		"2.12 a blocked completion does not keep what is deleted", "internal/tree/archive.go",
		"!e.Sends && e.Blocked > 0",
		"!e.Sends && e.Blocked > 1<<62", "./internal/tree", "TestScenarios/discard_blocked",
	},
	{
		"2.4 a session comes back below what is alive", "internal/tree/archive.go",
		"\t\t\tended = &EndedError{k, x.key}\n",
		"", "./internal/tree", "TestScenarios/revive_refused",
	},
	{
		"2.4 what came back counts nothing twice", "internal/tree/archive.go",
		"nil, nil, nil, nil, new(Ledger)",
		"nil, nil, nil, nil, nil", "./internal/tree", "TestScenarios/revive",
	},
	{
		"2.4 a spawn key is that of one run", "internal/tree/archive.go",
		"\t\tmore.SpawnKey, more.Digest = \"\", \"\"\n",
		"", "./internal/tree", "TestScenarios/revive_key",
	},
	{
		"2.4 what came back is not deleted", "internal/tree/archive.go",
		"\tspec.Delete = false\n",
		"", "./internal/tree", "TestScenarios/revive_key",
	},
	{
		"2.4 what is being brought back takes nothing", "internal/tree/archive.go",
		"begins != (s.Archiving != 0)", "begins && s.Archiving > 1<<62", "./internal/tree",
		"TestReviveBeginsAsAnArchive",
	},
	{
		"2.4 a revival that failed is taken back", "internal/tree/archive.go",
		"!c.Failed && !takenBack", "!takenBack", "./internal/tree", "TestScenarios/revive_crash",
	},
	{
		"2.4 a deletion takes a revival back", "internal/tree/archive.go",
		"!c.Failed && !takenBack", "!c.Failed && (!takenBack || true)", "./internal/tree", "TestScenarios/revive_discard",
	},
	{
		"2.4 a transcript is restored for a session of a tree", "internal/tree/archive.go",
		"\tr.archiving, r.restoring = true, true\n\tt.archiving++\n", "", "./internal/tree",
		"TestScenarios/revive_crash",
	},
	{
		"2.4 what a reset has left is archived after a crash", "internal/tree/reset.go",
		"r.ownTalk().Former = append(slices.Clip(r.Former), Former{old, r.Pos, r.NextOrd, f.At})",
		"r.ownTalk().Former = append(r.Former, Former{old, r.Pos, r.NextOrd, f.At})[:min(int(t.epoch)-1, len(r.Former)+1)]",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 an old session is put away once", "internal/tree/reset.go",
		"\tif r.ownTalk().Former = r.Former[1:]; len(r.Former) == 0 {\n\t\tr.ownTalk().Former = nil\n\t}\n", "",
		"./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 an archive of an old session that failed is tried again", "internal/tree/reset.go",
		"\t\tt.retryArchive(r)\n", "\t\tr.archiving = false\n", "./internal/tree", "TestScenarios/reset$",
	},
	{
		"2.4 files of what is still to be read are not archived", "internal/tree/reset.go",
		"return in.Ord <= r.Former[0].Ord && in.Mail.hasFiles()", "return false", "./internal/tree", "TestScenarios/reset_crash",
	},
	{
		"2.4 files belong to a transcript at every moment", "archive.go",
		"if err == nil && last.Pos == 0 &&", "if err == nil && last.Pos == 9 &&", "../agent", "TestRecordFollowsItsTranscript",
	},
}
