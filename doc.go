// Package offshoot is the signpost of the module; it has no code. Offshoot gives a Go bot that already has a model client and a chat
// transport prompts assembled from a workspace, sub-agents spawned under policy, and results that always come back.
//
//	agent       start here: Config, Runtime, Session, Child, tools, commands
//	  |
//	announce    an outcome becomes an event and reaches whoever asked
//	  |
//	spawn       the life of a tree of runs          context   session and workspace -> prompt
//	  |                                               |
//	policy      may it, with which limits, tools and sandbox
//	  |
//	session     who is who: keys, lineage, journals, transcripts, bindings
//
// Most programs import [github.com/offshoot-sdk/offshoot/agent] and [github.com/offshoot-sdk/offshoot/session] and nothing else. Every
// package below agent can be used without those above it: [github.com/offshoot-sdk/offshoot/policy] answers whether a spawn may happen,
// [github.com/offshoot-sdk/offshoot/context], whose package is called agentctx, makes a prompt out of a folder.
//
// To see all of it at work without a key, a network or any set-up:
//
//	go run ./examples/quickstart
//
// README.md has the first program, DESIGN.md the reasons, and CONTRIBUTING.md the rules for changes.
package offshoot
