package spawn_test

// senderMutants break the rules of who speaks.
var senderMutants = []mutant{
	{
		"senders: a child works for those for whom the turn does", "internal/tree/rights.go",
		"return policy.MergeSenders(parent.Senders(), c.Senders)",
		"return policy.MergeSenders(nil, c.Senders)", "./internal/tree", "TestSendersComeBack",
	},
	{
		"senders: what they may not use is not handed down", "internal/tree/rights.go",
		"rules.ForSenders(t.authorityUnder(rules, r), t.root.key, of)",
		"t.authorityUnder(rules, r)", "./internal/tree", "TestSendersComeBack",
	},
	{
		"senders: a message says by itself who it is from", "internal/tree/rights.go",
		"of := in.people(r.key)", "of := in.Senders", "../agent",
		"TestRulesThatBeginToAskBindWhatWasWritten",
	},
	{
		"senders: a turn under way of an earlier library has its people", "internal/tree/image.go",
		"\t\t\tr.nameReaders()\n", "", "./internal/tree", "TestSendersOfAMessageAreItsOwn",
	},
	{
		"senders: a wait that an earlier library began has its people", "internal/tree/apply.go",
		"if r.IsRoot() && len(j.Senders) == 0 {", "if false {", "./internal/tree",
		"TestSendersOfAMessageAreItsOwn",
	},
	{
		"senders: an owner by the program stays one", "internal/tree/rights.go",
		"if ok && who == f.Senders()[0] {",
		"if who.Owner = f.Senders()[0].Owner; ok && who == f.Senders()[0] {", "./internal/tree",
		"TestSendersOfAMessageAreItsOwn",
	},
	{
		"senders: what comes within a turn binds it", "internal/tree/apply.go",
		"\t\tt.readSenders(r, r.Open.Through, f.Ord, false, nil)\n", "",
		"./internal/tree", "TestSendersComeBack",
	},
	{
		"senders: what a tool returns of another session binds the turn", "internal/tree/apply.go",
		"\t\tr.setSenders(policy.MergeSenders(r.Senders(), f.Senders()))\n", "",
		"./internal/tree", "TestSendersOfWhatIsHeard",
	},
	{
		"senders: a reply has its people in a snapshot", "internal/tree/decodeimage.go",
		"\t\t\te.Senders = scanList(s, (*scanner).policySender)\n", "\t\t\tscanList(s, (*scanner).policySender)\n",
		"./internal/tree", "TestCodecRoundTrip",
	},
	{
		"senders: the end of a run brings its people", "internal/tree/rights.go",
		"\t\t\t\tof = run.Senders\n", "\t\t\t\tof = run.Senders[:0]\n",
		"./internal/tree", "TestSendersComeBack",
	},
	{
		"senders: a follow-up works for those of the runs before", "internal/tree/restart.go",
		"policy.MergeSenders(r.everSenders(), c.Senders)", "c.Senders", "./internal/tree",
		"TestSendersOfFollowUps",
	},
	{
		"senders: a follow-up works for those of every run that is kept", "internal/tree/rights.go",
		"\tfor i := range r.Past {\n\t\tall =", "\tfor i := range r.Past[:0] {\n\t\tall =",
		"./internal/tree", "TestSendersOfEarlierFollowUps",
	},
	{
		"senders: a later turn of an owner is free", "internal/tree/rights.go",
		"if !r.IsRoot() || !begins || repeats {", "if repeats = true; repeats {", "./internal/tree",
		"TestSendersComeBack",
	},
	{
		"senders: a wait is that of those for whom it began", "internal/tree/decide.go",
		"\t\t\t\tjoin.Senders = r.Senders()\n", "\t\t\t\tjoin.Senders = nil\n",
		"./internal/tree", "TestSendersOfAWait$",
	},
	{
		"senders: a turn that repeats another works for the same", "internal/tree/rights.go",
		"repeats := r.Retry || len(r.Crashes) > 0", "repeats := false", "./internal/tree", "TestSendersOfAWait$",
	},
	{
		"senders: a wait may end while a turn is repeated", "internal/tree/rights.go",
		"if r.IsRoot() && wait != nil {", "if r.IsRoot() && !r.Retry && wait != nil {",
		"./internal/tree", "TestSendersOfAWaitThatEndsInACrash",
	},
	{
		"a completion that moves to the inbox keeps its run", "internal/tree/apply.go",
		"\t\t\tt.postCompletion(t.root, e.Run, e.RunID, f.At)\n\t\t}\n\t\tt.removeEntry(e)\n",
		"\t\t\tt.removeEntry(e)\n\t\t\tt.postCompletion(t.root, e.Run, e.RunID, f.At)\n\t\t}\n",
		"./internal/tree", "TestRedirectedCompletionKeepsItsRun",
	},
	{
		"senders: a crowd is kept as one", "../policy/sender.go",
		"if len(merged) <= MaxSenders {", "if true {", "../policy", "TestMergeSenders",
	},
	{
		"senders: of several the least may", "../policy/sender.go",
		"\tfor i := range senders {\n", "\tfor i := range senders[:1] {\n", "../policy",
		"TestForSendersIsLeast",
	},
	{
		"senders: a call is asked about anew", "turn.go",
		"if known.rules == rules && sameSenders(known.of, of) {", "if known.rules == rules {",
		"../agent", "TestStrangerWithinATurn",
	},
}
