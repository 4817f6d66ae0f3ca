// Package contexttest makes the review of prompts part of a test suite.
//
//	workspace ──► agentctx.Assemble ──► Prompt ──► Golden     testdata/prompts/<name>.md
//	    │                                  ├─────► Complete   nothing cut, nothing missing
//	    │                                  ├─────► SeesOnly   these files and no others
//	    │                                  └─────► Order, Has, Lacks, SamePrefix
//	    └──► Lint, Clean   what is wrong with these files, by file and line
//
// # Where to begin
//
// Begin with [Golden] in golden.go: one call for each kind of session makes every change of a
// prompt a diff that is reviewed like code. OFFSHOOT_UPDATE=1 accepts a change. So does -update, if
// the tests define a boolean flag of that name. [Complete] and [SeesOnly] in assert.go say why a
// file is cut, missing or visible. [Clean] in lint.go checks the workspace itself.
// examples/promptci is a whole suite.
//
// Eleven names are all that a suite needs:
//
//	Golden      compares a prompt with a file
//	Complete    fails for a file or skill that is cut or missing
//	SeesOnly    fails unless exactly these files are shown
//	Order       fails unless the sections come in this order
//	Has, Lacks  fail unless a text is in the prompt, or is not
//	Skills      fails for each SKILL.md that is broken
//	SamePrefix  fails unless the prompts share one entry of a provider's cache
//	Lint        returns the findings in a workspace; Clean fails for each of them
//	Workspace   makes a workspace in memory
//	Diff        renders the difference of two texts, for golden files of other kinds
//
// Every failure begins with "contexttest: ". The functions report failures and do not stop the
// test. The package imports only the standard library and Offshoot.
package contexttest
