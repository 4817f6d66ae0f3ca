package spawn_test

// sentMutants break the rules of messages to other trees.
var sentMutants = []mutant{
	{
		"sent: the receiver knows the message by its id", "sendout.go",
		"said := &Incoming{ID: m.ID, ", "said := &Incoming{", ".", "TestSendOutToATreeThatFails",
	},
	{
		"sent: the receiver knows who sends it", "sendout.go",
		"cmd.From = m.From", "cmd.From = session.Key{}", ".", "TestSendOutToATreeThatFails",
	},
	{
		"sent: one message has one entry", "internal/tree/outbox.go",
		"\tif t.SentTo(c.To, c.ID) != nil {\n", "\tif false {\n",
		"./internal/tree", "TestScenarios/sent$",
	},
	{
		"sent: a blocked message is the same entry", "internal/tree/outbox.go",
		"e.queue == q && e.RunID == id", "false", "./internal/tree", "TestScenarios/sent$",
	},
	{
		"sent: each receiver has a queue", "internal/tree/outbox.go",
		"return Destination{To: e.To, Sends: true}", "return Destination{Sends: true}",
		".", "TestSendOutToATreeThatFails",
	},
	{
		"sent: what the receiver refuses is blocked at once", "sendout.go",
		"return Permanent(err)", "return err", ".", "TestSendOutThatIsRefusedThere",
	},
	{
		"sent: a journal that fails is no refusal", "sendout.go",
		"if refused || wrong", "if err != nil || refused || wrong", ".",
		"TestSendOutToATreeThatFails",
	},
	{
		"sent: it does not move to an inbox", "internal/tree/outbox.go",
		"!e.Update && !e.Sends }", "!e.Update }", "./internal/tree", "TestScenarios/sent$",
	},
	{
		"sent: the deletion of its session leaves it", "internal/tree/archive.go",
		"!e.Reply && !e.Sends &&", "!e.Reply &&", "./internal/tree", "TestScenarios/sent_discard",
	},
	{
		"sent: a turn that has sent is not untouched", "internal/tree/outbox.go",
		"\tr.didWork = r.didWork || f.N > 0\n", "", "./internal/tree", "TestScenarios/sent_child",
	},
	{
		"sent: it is for the people of its turn", "internal/tree/outbox.go",
		"\tc.Senders = policy.MergeSenders(r.Senders(), c.Senders)\n", "",
		"./internal/tree", "TestScenarios/sent$",
	},
	{
		"sent: a snapshot keeps it apart", "internal/tree/decodeimage.go",
		"\t\t\te.Sends = s.bool()\n", "\t\t\ts.bool()\n", "./internal/tree",
		"TestDecoderKnowsEveryMember",
	},
	{
		"sent: the answer is waited for from the post on", "sendout.go",
		"there.watchAnswer(w, post, t, r)", "_ = w", ".", "TestSendOutThatWaits",
	},
	{
		"sent: who waits hears that it is blocked", "sendout.go",
		"e != nil && e.Blocked > 0 {", "e != nil && e.Blocked > 1<<62 {", ".",
		"TestSendOutThatWaits",
	},
	{
		"sent: a shutdown before the post is no attempt", "sender.go",
		"p.queue.PushFront(&queuedDelivery{attempt: call.attempt, out: out})", "_ = out", ".",
		"TestSendOutThatAShutdownCutsShort",
	},
}
