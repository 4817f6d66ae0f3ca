// Package disktest is a disk in memory, for tests of what must survive a failure. The Disk tells
// synced data from data that was not synced. It loses power in every way that a file system allows,
// and its operations fail where the test asks for it.
//
//	d := disktest.New()
//	d.Hook(func(op disktest.Op) error { ... })   before every operation; an error makes it fail
//	...                                          the program under test, with d as its disk.FS
//	for keep := range d.Losses(rng, 100) {
//		after := d.Crash(keep)                   one state of the disk after the loss of power
//	}
//
// # Where to begin
//
// disk.go has the Disk, its operations and the Hook. file.go has open files. crash.go loses the
// power. group.go has the floor that benchmarks compare a log with.
package disktest
