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
		"\tcase t.opt.CallerRun:\n\t\tf.Flags", "\tcase false:\n\t\tf.Flags",
		"./internal/tree", "TestScenarios/event_out",
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
	{
		"updates: people are told in place of the session", "internal/tree/settle.go",
		"\t\tf.N = 1\n", "", "./internal/tree", "TestScenarios/update",
	},
	{
		"updates: a follow-up has none", "internal/tree/settle.go",
		"r.Spec.Update && r.Begin == nil &&", "r.Spec.Update &&",
		"./internal/tree", "TestScenarios/update",
	},
	{
		"updates: silence is kept", "internal/tree/settle.go",
		"r.Parent.Cause != Stopped && !(s == OK && r.asksForSilence())", "r.Parent.Cause != Stopped",
		"./internal/tree", "TestScenarios/update",
	},
	{
		"updates: what is stopped with its requester says nothing", "internal/tree/settle.go",
		"r.Parent.Cause != Stopped && !(s == OK", "!(s == OK",
		"./internal/tree", "TestScenarios/update",
	},
	{
		"updates: in order with the replies of the conversation", "internal/tree/outbox.go",
		"case !e.Reply && !e.Update:", "case !e.Reply:", "./internal/tree", "TestScenarios/update",
	},
	{
		"updates: a sub-agent has no chat", "internal/tree/decide.go",
		"case c.Update && !parent.IsRoot():", "case false:",
		"./internal/tree", "TestScenarios/update",
	},
	{
		"updates: one is not redirected", "internal/tree/outbox.go",
		"!e.Hook && !e.Update && !e.Sends", "!e.Hook && !e.Sends",
		"./internal/tree", "TestScenarios/update",
	},
	{
		"updates: the run is kept until it has arrived", "internal/tree/inbox.go",
		"\tt.addEntry(e)\n\tt.holdEntry(e, 1)\n", "\tt.addEntry(e)\n",
		"./internal/tree", "TestScenarios/update",
	},
}
