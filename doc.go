// Package offshoot is an entry to the module and has no code. Offshoot is a library for Go bots
// that already have a model client and a chat transport. It gives such a bot prompts assembled from
// a workspace, sub-agents spawned under policy, and results that always come back.
//
//	agent       begin here: Config, Runtime, Session, Child, tools
//	  |
//	announce    the end of a run becomes a text that reaches its requester
//	  |
//	spawn       the life of a tree of runs          context   session and workspace -> prompt
//	  |                                               |
//	policy      whether a spawn may happen, with which limits, tools and sandbox
//	  |
//	session     the names of sessions, and what is stored of them
//
// Most programs import [github.com/offshoot-sdk/offshoot/agent] and
// [github.com/offshoot-sdk/offshoot/session], a program with rules of its own also
// [github.com/offshoot-sdk/offshoot/policy]. Every package below agent can be used without those
// above it. For example, policy alone answers whether a spawn may happen, and
// [github.com/offshoot-sdk/offshoot/context], whose package is called agentctx, makes a prompt of a
// directory.
//
// This command shows all of it at work, without a key, a network or any set-up:
//
//	go run ./examples/quickstart
//
// README.md has the first program, DESIGN.md the reasons, and CONTRIBUTING.md the rules for
// changes.
package offshoot
