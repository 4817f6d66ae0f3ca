package spawn_test

// nameMutants are the mutants of what decides what a name of a run names.
var nameMutants = []mutant{
	{
		"2 a name of a child that lives is taken", "internal/tree/decide.go",
		"if err := t.nameTaken(c); err != nil {", "if err := t.nameTaken(c); false {",
		"./internal/tree", "TestScenarios/name$",
	},
	{
		"2 a name of a child that has ended is free", "internal/tree/name.go",
		"if of == nil || of.State.Terminal() {", "if of == nil {",
		"./internal/tree", "TestScenarios/name$",
	},
	{
		"2 a name passes on", "internal/tree/name.go",
		"\t\tolder.Unnamed = true\n", "\t\t_ = older\n", "./internal/tree", "TestScenarios/name$",
	},
	{
		"2 a name names a child of one session", "internal/tree/name.go",
		"of := t.names[nameKey{c.Parent, c.Name}]", "of := t.names[nameKey{t.root.key, c.Name}]",
		"./internal/tree", "TestScenarios/name$",
	},
	{
		"2 a later run does not get the name back", "internal/tree/restart.go",
		", Unnamed: r.Unnamed,", ",", "./internal/tree", "TestScenarios/name$",
	},
	{
		"2 a name is read from a snapshot", "internal/tree/image.go",
		"\t\tif err := t.restoreName(r, Snapshot); err != nil {\n\t\t\treturn err\n\t\t}\n", "",
		"./internal/tree", "TestScenarios/name$",
	},
	{
		"2 what leaves the tree gives its name back", "internal/tree/apply.go",
		"\tt.dropName(r)\n", "", "./internal/tree", "TestScenarios/name_revive",
	},
	{
		"2 what leaves the tree leaves the name to whom it was given", "internal/tree/name.go",
		"\tif r.Name() != \"\" {\n\t\tdelete(", "\tif r.Spec.Name != \"\" {\n\t\tdelete(",
		"./internal/tree", "TestScenarios/name_revive",
	},
	{
		"2 what comes back does not take a name", "internal/tree/archive.go",
		"\ts.Unnamed = t.names[nameKey{s.Spec.Parent, s.Spec.Name()}] != nil\n", "",
		"./internal/tree", "TestScenarios/name_revive",
	},
	{
		"2 what comes back has its name", "internal/tree/archive.go",
		"\tif err := t.restoreName(r, f.Kind); err != nil {\n\t\treturn err\n\t}\n", "",
		"./internal/tree", "TestScenarios/name_revive",
	},
	{
		"2 each attempt at an archive has the same record", "internal/tree/archive.go",
		"\ts.Unnamed = false ", "\t// ", "./internal/tree", "TestRecordWithoutName",
	},
	{
		"2 a name is not that of all", "internal/tree/name.go",
		"case slices.Contains(reservedNames, name):", "case slices.Contains(reservedNames[:0], name):",
		"./internal/tree", "TestNameFault",
	},
	{
		"2 a name is not the id of a run", "internal/tree/name.go",
		"case hasFormOfID(name):", "case false:", "./internal/tree", "TestNameFault",
	},
	{
		"2 two names make two requests", "internal/tree/request.go",
		"fmt.Fprintf(h, \"name %x;\", c.Name)", "_ = c.Name", "./internal/tree", "TestDigestHasEveryField",
	},
}
