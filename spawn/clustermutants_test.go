package spawn_test

// clusterMutants let a process have, keep or act for a tree that it must not, or leave one alone.
var clusterMutants = []mutant{
	{
		"cluster: the limit of turns is that of all processes", "cluster.go",
		"c.sup.lane.Share(session.NewID(), c.owners.Lane)", "_ = session.NewID", ".", "TestLimitOfACluster",
	},
	{
		"cluster: a slot that is given back is given back to the cluster", "internal/owner/lane.go",
		"h.share.free(r.Key())", "_ = r.Key", ".", "TestLimitOfACluster",
	},
	{
		"cluster: a requester that came first does not have all places", "internal/owner/lane.go",
		"spare := h.share.spare(r); spare != nil", "spare := h.share.spare(r); false", "./internal/owner",
		"TestSharedLaneIsFair",
	},
	{
		"cluster: a command is done by the process that has the tree", "operation.go",
		"return err != nil && s.cluster != nil &&", "return false && s.cluster != nil &&", ".",
		"TestCommandsReachTheOwner",
	},
	{
		"cluster: what was asked for is not passed on", "operation.go",
		" && ctx.Value(routedKey{}) != root", "", ".", "TestOperationIsNotPassedOn",
	},
	{
		"cluster: a request without an answer may have been done", "operation.go",
		"case errors.Is(err, session.ErrUnanswered):\n\t\t\tagain = true\n",
		"case errors.Is(err, session.ErrUnanswered):\n", ".", "TestCommandOfAProcessThatDies",
	},
	{
		"cluster: a command waits for a tree that moves", "operation.go",
		"&& !errors.Is(err, ErrShutdown) {", "{", ".", "TestCommandInAHandover",
	},
	{
		"cluster: the process that has the tree answers questions", "operation.go",
		"if err = s.answerAll(ctx, of, err, answers); err != nil {", "if true {", ".",
		"TestOwnerAnswersQuestions",
	},
	{
		"cluster: a caller waits for a tree of another process", "operation.go",
		"err == nil && (holds(v.tree) || over):", "err == nil:", ".",
		"TestWaitForRunsOfAnotherProcess|TestWaitOverATakeover",
	},
	{
		"cluster: a turn waits until the process may act", "runningturn.go",
		"\tif err := rt.turn.fence.hold.wait(ctx); err != nil {\n\t\trt.cancel(err)\n\t}\n", "", ".",
		"TestNothingBeginsInAPause",
	},
	{
		"cluster: a delivery waits until the process may act", "sender.go",
		"if sh.sup.cluster == nil {", "if true {", ".", "TestNothingBeginsInAPause|TestDeliveryWaits",
	},
	{
		"cluster: what a tree has done beside it waits until the process may act", "treeshell.go",
		"work(ctx, h.wait(ctx))", "work(ctx, nil)", ".", "TestNothingBeginsInAPause",
	},
	{
		"cluster: a method of a turn waits until the process may act", "fence.go",
		"err != nil || t.fence.hold == nil {", "err != nil || true {", ".",
		"TestNothingBeginsInAPause",
	},
	{
		"cluster: a tree is claimed before it is taken over", "internal/owner/claim.go",
		"if o.cfg.Claims == nil || o.tree != nil &&", "if true || o.tree != nil &&", ".",
		"TestTreeOfAnotherProcess",
	},
	{
		"cluster: a process that does not run asks again", "internal/owner/claim.go",
		"o.tree != nil && o.cfg.Claims.Keeps() ||", "o.tree != nil ||", ".",
		"TestWaitInAProcessThatDoesNotRun",
	},
	{
		"cluster: a caller that waits hears of the process that has the tree",
		"internal/owner/claim.go",
		"\to.exec.Owned(err)\n", "", ".", "TestWaitThatAnotherProcessEnds",
	},
	{
		"cluster: a tree that is not needed is given up", "internal/owner/owner.go",
		"if o.claim != 0 {", "if false {", ".", "TestTreeThatRestsIsGivenUp|TestRefusedCommand",
	},
	{
		"cluster: a tree that is in use is not given up", "internal/owner/claim.go",
		"claims.Keeps() && !leaves || claims.InUse(o.root)", "claims.Keeps() && !leaves", ".",
		"TestWaitInAProcessThatDoesNotRun",
	},
	{
		"cluster: what was only read is not kept", "internal/owner/owner.go",
		"o.tree.Epoch() == 0 || o.isReading()", "o.tree.Epoch() == 0", ".",
		"TestTreeOfAnotherProcess",
	},
	{
		"cluster: a conflict does not leave the tree to no process", "internal/owner/owner.go",
		"!o.noAppendYet && o.cfg.Claims == nil", "!o.noAppendYet", ".",
		"TestSecondProcessTakesOverAtEveryWrite|TestConflictAsksForTheClaim",
	},
	{
		"cluster: a tree that was taken is lost", "cluster.go",
		"taken = append(taken, c.take(h))", "_ = h", ".", "TestOutages",
	},
	{
		"cluster: a process that is not heard for too long gives up", "cluster.go",
		"if c.tenure.Look(time.Now()).AllOut {", "if c.tenure.Look(time.Now()); false {", ".",
		"TestTurnsEndInALongOutage",
	},
	{
		"cluster: a shutdown leaves", "lifecycle.go",
		"if !s.cluster.end(s.cfg.Grace) && s.stopError == nil {", "if false {", ".",
		"TestShutdownHandsOver",
	},
	{
		"cluster: a shutdown takes no tree", "lifecycle.go",
		"\ts.cluster.stopTaking()\n", "", ".", "TestShutdownTakesNoTree",
	},
	{
		"cluster: Settle claims", "settle.go",
		"if owners != nil {", "if false {", ".", "TestSettleClaims",
	},
	{
		"cluster: a claim that was taken while it was asked for does not hold", "cluster.go",
		"case err == nil && claim.Epoch <= taken:", "case false:", ".", "TestClaimThatIsTakenAtOnce",
	},
	{
		"cluster: a shutdown gives up what rests when it begins", "internal/owner/claim.go",
		"leaves := claims.Leaves()", "leaves := false", ".", "TestDrainHandsOverOneByOne",
	},
	{
		"cluster: a shutdown tries again to give a tree up", "lifecycle.go",
		"handing.Go(func() { s.cluster.handOver(soft) })", "", ".",
		"TestDrainOfAProcessThatIsCutOff",
	},
	{
		"cluster: a call that waits in a shutdown goes on elsewhere", "internal/owner/claim.go",
		"\t\t\to.exec.Owned(errGivenUp)\n", "", ".", "TestCallsThatWaitInADrain",
	},
	{
		"cluster: the answer to a message is kept until its sender asks", "sendout.go",
		"asks.Asks = len(sh.waitersOf(post, id)) > 0", "asks.Asks = false", ".",
		"TestFastAnswerOfAnotherProcess",
	},
}
