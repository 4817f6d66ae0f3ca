// Package agent is where to start: it gives a bot sub-agents. A bot that has a model client and a
// chat transport opens a [Runtime] with a [Config]. It gets prompts assembled from a workspace,
// sub-agents under policy, and results that always come back.
//
//	   people                                       the caller's
//	     |  ^                                       model client
//	Post |  | Config.Reply                               ^
//	     v  |                                            |
//	 +-------------+    turn     +----------+   Turn  +--------+
//	 |   Session   | ----------> | Runtime  | ------> | Runner |   (Loop is one, over a Model)
//	 | inbox, one  | <---------- |          | <------ |        |
//	 | turn a time | completion  +----------+  Result +--------+
//	 +-------------+                  |
//	     |  sessions_spawn, Spawn     | Config.Deliver, for sessions that the caller runs itself
//	     v                            v
//	 sub-agents: sessions like any other, below this one
//
// # Ten names
//
//   - [Config] is what a bot is made of. Only its Runner is required.
//   - [Open] makes a [Runtime] of it; [Runtime.Run] runs everything until Shutdown.
//   - [Session] is one conversation: Post, PostAndWait, Events, CancelTurn, Stop, Idle. Reset
//     begins it anew, and Compact has it made shorter.
//   - [Runner] runs one turn. A caller with an agent loop of its own implements it.
//   - [Turn] is what a Runner gets: the prompt, the messages, the tools.
//   - [Loop] is a Runner for a caller that holds only a [Model].
//   - [Tool] is what a model may call; [NewTool] makes one of a function.
//   - [Spawn] starts a sub-agent from Go with a [Task]; the model does it with sessions_spawn.
//   - [Child] is a handle on that sub-agent: Wait, Steer, Stop, and Post for a follow-up.
//   - [Join] waits for several.
//
// # A first bot
//
// Open, Post and Run are enough:
//
//	rt, err := agent.Open(ctx, agent.Config{
//		Runner:    &agent.Loop{Model: myModel},
//		Workspace: os.DirFS("workspace"),
//		Reply: func(ctx context.Context, d agent.Delivery) error {
//			return send(ctx, d.To, d.Reply.Text)
//		},
//	})
//	if err != nil { ... }
//	go func() { ended <- rt.Run(ctx) }()
//	chat := rt.Session(session.Must(session.DirectKey("main", "terminal", "me")))
//	_, err = chat.Post(ctx, agent.Incoming{Text: "What is the weather in Lagos?"})
//
// There are two ways to use a Runtime. With Config.Deliver nil, Offshoot runs the chats too: Post
// puts in what people say, and Reply takes out what the agent says. With Deliver set, the bot keeps
// its own loop. It gives its model the tools of [Session.Tools], and Deliver gets each completion
// when a sub-agent has ended.
//
// A sub-agent that has ended can go on: a message to its session begins another run there, which
// has the conversation so far. [Child.Post] returns the handle on that run. Models send messages
// with sessions_send, and are told of the end. Each run is on its own: a Child waits for its run,
// also where others have followed it, and [Session.OwnRuns] lists those that are kept. The page
// docs/follow-ups.md says more.
//
// [PresetGoClaw] and [PresetClawdbot] make a Config behave as another bot does; the zero Config
// behaves as OpenClaw. Bots are tested with the package agenttest, in virtual time.
//
// A message has Parts beside its text, such as pictures. Their bytes are files of the Store, which
// a tool hands over in a [ToolResult] and a Runner with [Turn.PutFile], and which [Turn.OpenFile]
// and [ModelRequest.OpenFile] read. A message that is too long for a line of the transcript is a
// file, too; a Runner is always given the whole of it.
//
// Calls of one answer run in parallel if their tools are Concurrent. A Tool has a Timeout if it
// says so, and an Effect, which decides whether a call is made again. A [StreamModel] shows its
// answer as it comes. An answer with nothing in it is asked for once more, and then the turn fails
// with [ErrEmptyAnswer].
//
// A model is given the whole conversation. With [Models].Window it is given what its context has
// room for, behind a summary of the rest that [Summarize] or a function of the caller's writes; see
// [Window].
//
// [Runtime.Events] shows what happens as it happens, in one chat or in all, and goes on behind a
// [Cursor] after a restart: turns, calls of tools, deltas, how far the work has come, which a
// Runner says with [Turn.Report], and results, each as people may see it.
//
// With [Config].Threads a conversation, such as a thread, can be bound to a sub-agent or to another
// session: what people write there goes to it, and is answered there. [Task].Thread and the tools
// of the model do that for a spawn, and [Runtime.Focus] for what is there.
//
// To read the code, begin with config.go and turn.go: what is set, and what one turn is;
// incoming.go is what people send. After them, runtime.go wires the two to the tree of runs in
// package spawn, session.go and child.go are the handles, conversation.go and record.go write
// transcripts, window.go bounds what a model is shown of them, compact.go shortens it, parts.go
// keeps their files, and sessiontools.go, send.go and subagents.go hold the tools of the model.
// focus.go finds the session that a conversation is bound to, and thread.go has what a channel does
// for that. credentials.go has what the Runner of an agent logs in with.
//
// # What is promised
//
// Inside a tree everything happens exactly once: a spawn is admitted or refused, a run ends in one
// state, and its requester's turn consumes its completion once, whatever crashes in between.
// Deliver and Reply are called at least once, always under the same key, so that a receiver that
// remembers keys gets each thing exactly once.
//
// A turn that a crash interrupts is not silently run again. A sub-agent's run becomes interrupted,
// and its requester is told. A top-level session gets another turn over the same inputs, with
// [Turn.Retry] set. Each input has three attempts: when the process has died three times over it,
// it counts as read, and people are told that something went wrong. A turn that a
// [Runtime.Shutdown] interrupts is not an attempt. A sub-agent that a shutdown cuts before its turn
// did anything, see [ErrUntouched], is not interrupted: the next process starts it again. The page
// docs/doing-again.md says what else is done again, and how.
//
// # What was used
//
// A Loop, or [Turn.Spend], accounts for each model call. [Models].Prices gives a call its cost
// where the caller does not, and budgets count it. [Runtime.Usage] reports tokens and costs of all
// trees, by session, tree, agent, model and day of any time zone; archives and restarts take
// nothing away. [Runtime.Sessions] lists the sessions by when they were last active.
//
// # Models that fail
//
// A [Model] says which of its errors are worth another try: [Retryable] marks one, and a
// [RateLimited] is one, for which the provider may say when it takes calls again. A Loop makes the
// call again after a pause, five times in total unless [Loop].Retries says otherwise.
//
// A RateLimited pauses the provider, which is what stands before the first slash of the model. Its
// turns wait without a slot, those that would start wait in the queue, and all others go on. A
// Runner that calls models itself does the same with [Turn.BeginCall] and [Turn.Limited].
//
// Before each call a Loop reserves what it is expected to use, where a budget limits the run. So
// turns at the same time do not all count on the same rest: together they exceed a budget by one
// call, or by one of each turn under way if calls use more than was expected.
//
// # Errors
//
// Errors are sentinels and types, for errors.Is and errors.AsType. A call that asks for something
// is a command. Every command can return [ErrNotRecorded] and [ErrUnconfirmed], which say what a
// failing store has kept of it, and how to repeat it. A call that only reads can return
// [ErrUnreadable]. A call that waits for something waits for a failing store, too, unless the store
// will never work again or a person must repair the tree. All of them return [ErrShutdown] after
// the end of the Runtime, and the cause of a ctx that ends first, also if the store does not return
// then. Of a command either is ErrNotRecorded as well if it comes before the store was given
// anything to keep, such as before the call, and ErrUnconfirmed if it comes later, also while a
// command waits for what comes of it. What is wrong with the arguments of a command, or refused, is
// neither. Of a handle on a sub-agent each returns [ErrNotFound] if that is not on record. What
// belongs to a turn returns [ErrStale] after the turn. What else a call may return stands at the
// call.
package agent
