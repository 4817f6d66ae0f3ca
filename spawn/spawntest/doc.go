// Package spawntest is the kit for tests of what is built on package spawn, and of journals that
// spawn is to run on.
//
// Begin in runner.go: a [Runner] stands in for the model. It plays a [Play] for each turn, step
// by step. Give it to [spawn.Config], run the Supervisor, and look at the journal afterwards.
//
//	Play: Say, Spawn, Yield, Fail ...          Fault: die, fail, hang, panic
//	            |                                          |
//	         Runner  <--  spawn.Supervisor  -->  CrashJournal  -->  Recorder  -->  store
//	            |                                                      |
//	          Calls                                        History, for Audit and Facts
//
// The names that matter:
//
//	Runner         plays a script: what each turn says, spawns and waits for, and how it fails
//	CrashJournal   a journal that dies, fails, hangs or panics at a chosen append
//	Recorder       a journal that remembers every entry, also those that a snapshot has replaced
//	Audit          returns an error if a journal says what cannot have happened; Inspect counts
//	Facts, Ends    yield what the entries of a journal record
//	Histories      play a program with random callers, faults and crashes
//
// A crash is a CrashJournal that dies, and a second Supervisor that opens the same store. The first
// Supervisor is not shut down. The example of the package shows it.
//
// Histories play a program of the caller's many times: commands by several callers at once, a store
// that fails, processes that die or are shut down, one after the other. A history that fails is
// made as short as it fails with, and is printed as lines that play it again: docs/histories.md.
//
//	seed  -->  lives, calls, faults  -->  play  -->  Check, Audit  -->  shrink  -->  HistoryError
//
// Audit decides by its own rules. It shares nothing with the code that it checks but the reading of
// facts.
package spawntest
