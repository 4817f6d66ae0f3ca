package spawn_test

// eventMutants are the mutants of events that the program announces.
var eventMutants = []mutant{
	{
		"events: one for an id", "internal/tree/seen.go",
		"\tif f.Class == Event {\n\t\thow = toldEvent\n\t}\n", "",
		"./internal/tree", "TestScenarios/event$",
	},
	{
		"events: a message may have the id of one", "internal/tree/seen.go",
		"case o.event != (p.how == toldEvent):", "case false:",
		"./internal/tree", "TestScenarios/event$",
	},
	{
		"events: a sub-agent has none", "internal/tree/inbox.go",
		"if !r.IsRoot() {", "if false {", "./internal/tree", "TestScenarios/event$",
	},
	{
		"events: one starts a turn", "internal/tree/run.go",
		"case User, Task, Event:", "case User, Task:", "./internal/tree", "TestScenarios/event$",
	},
	{
		"events: a caller is handed one", "internal/tree/inbox.go",
		"if t.opt.CallerRun {", "if false {", "./internal/tree", "TestScenarios/event_out",
	},
	{
		"events: one that left is known", "internal/tree/inbox.go",
		"\tt.notePost(f, r.RunID())\n\treturn nil\n", "\treturn nil\n",
		"./internal/tree", "TestScenarios/event_out",
	},
	{
		"events: one comes back", "internal/tree/apply.go",
		"\t\tif e.Event {\n\t\t\tt.takeBack(e, f.At)\n", "\t\tif e.Event {\n",
		"./internal/tree", "TestScenarios/event_out",
	},
	{
		"events: one that came back starts a turn", "internal/tree/inbox.go",
		"Text: e.Text,\n\t})\n\tr.count(&r.Inbox[len(r.Inbox)-1], 1)\n", "Text: e.Text,\n\t})\n",
		"./internal/tree", "TestScenarios/event_out",
	},
	{
		"events: one in the outbox is in the snapshot", "internal/tree/decodeimage.go",
		"\t\t\te.Event = s.bool()\n", "\t\t\ts.bool()\n",
		"./internal/tree", "TestDecoderKnowsEveryMember",
	},
	{
		"events: one begins a request", "internal/tree/request.go",
		"\t\tcase Event:\n\t\t\tperson = strconv.FormatUint(uint64(in.Ord), 10)\n", "",
		"./internal/tree", "TestScenarios/event_request",
	},
}
