// Package contexttest makes the review of prompts part of a test suite.
//
//	workspace ──► agentctx.Assemble ──► Prompt ──► Golden     testdata/prompts/<name>.md
//	    │                                  ├─────► Complete   nothing cut, nothing missing
//	    │                                  ├─────► SeesOnly   these files and no others
//	    │                                  └─────► Order, Has, Lacks, SamePrefix
//	    └──► Lint   what will go wrong with these files one day
//
// A change of a prompt then shows up as a diff of a golden file and is
// reviewed like code. OFFSHOOT_UPDATE=1 accepts it; so does -update, if the
// tests define a boolean flag of that name.
//
// The package imports only the standard library and Offshoot.
package contexttest
