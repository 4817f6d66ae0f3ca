// Package spawntest helps to test what is built on package spawn, and a journal that spawn is to run on.
//
//	Runner         plays a script: what each run says, spawns, waits for, how it fails, hangs or panics
//	Recorder       a journal that remembers everything, also what a snapshot has replaced
//	CrashJournal   a journal that dies, fails, hangs or panics at an append of your choice
//	Audit          walks a journal and says what cannot have happened
//	Facts, Ends    yield what the entries of a journal record
//
// A crash is a CrashJournal that dies, and a second Supervisor that opens the same store without a Shutdown of the first. Audit
// decides by its own rules and shares nothing with the code that it checks but the reading of facts.
package spawntest
