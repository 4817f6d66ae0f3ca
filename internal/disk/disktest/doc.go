// Package disktest is a disk in memory for tests of what must survive: it tells what was synced from what was not, loses power in
// every way that a file system allows, and fails when it is told to.
//
//	d := disktest.New()
//	d.Hook(func(op disktest.Op) error { ... })   every operation, before it happens: an error makes it fail
//	...                                          the program under test, with d as its disk.FS
//	for keep := range d.Losses(rng, 100) {
//		after := d.Crash(keep)                   what could be there when the power is back
//	}
package disktest
