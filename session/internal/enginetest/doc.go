// Package enginetest has the tests that are the same for every engine with a server: of processes
// that share it, that are cut off from it, and that are killed as it is. The tests of an engine say
// how a Store is opened and how the server is killed.
//
//	Main       a test binary, or the child of one ---> Role, Start, Process
//	Network    the way of a process to the server, which a test cuts
//	Engine     the tests: of members, of Runtimes, of a bot that is moved
//
// Nothing here knows an engine. It is for real processes and real servers, so what waits here waits
// in real time. Begin in engine.go.
package enginetest
