// Package command has the commands that people type in a chat: it reads them, does what they ask of
// an [agent.Runtime], and says what came of it.
//
//	"/kill alpha"     Syntax.Parse        Kill{Target: "alpha"}
//	"please stop!" -----------------> Command Stop{Phrase: true}
//	"hello"               |               |
//	                      v               v   Options.Authorize
//	              not a command:      Handler.Do ------------------> agent.Runtime
//	              the transport           |     the session that the conversation speaks to,
//	              posts it                |     and the sub-agents below it
//	                                      v
//	                                   Answer  Killed{Stopped: ...}, Failed, Denied
//	                                      |
//	                                      +-- Text: "Stopped alpha."
//
// [New] makes a [Handler] for a Runtime. A transport gives everything that people say to
// [Handler.Handle] first, and posts what is not a command:
//
//	if answer, ok := commands.Handle(ctx, key, m); ok {
//		return show(answer.Text())
//	}
//	_, err := rt.Session(key).Post(ctx, m)
//
// An [Answer] is a struct for programs, such as [Listed], and its Text is what a person reads. What
// models have chosen, such as labels and tasks, stands there as people may see it: credentials are
// masked, controls are left out, and mentions and mark-up of channels mean nothing. What was not
// done is an answer, too: [Failed] has the error for the log, and says in its Text what the person
// can do.
//
// A program with buttons or forms makes the [Command] itself and calls [Handler.Do].
//
// The commands concern the session that the conversation speaks to, which is the one that is bound
// there if there is one, and the sub-agents below it. No other tree is reached, but for [Focus]
// where [Options].Reach allows it. The page docs/commands.md has all commands, with what each
// refuses.
//
// Begin with syntax.go, which is what people type, and handler.go.
package command
