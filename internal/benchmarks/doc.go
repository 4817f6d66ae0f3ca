// Command benchmarks measures what a sub-agent costs from its spawn until its result is where it
// was asked for, beside other ways to have that done, in one run:
//
//	go run .
//
// It prints a table for memory and one for disk:
//
//	at a time:         1                20
//	goroutine          0.7 us   1.0x    0.5 us   1.0x     3 allocs
//	spawn             11.2 us  16.0x    7.8 us  15.6x    17 allocs
//	...
//
// The first row of a table is its floor, and every ratio is to the floor of the same column. All
// rows take turns, round by round, so that what else the machine does is in all of them, and each
// figure is the median of the rounds. What the rows promise differs, and the tables say so.
//
// A workload that makes a file for each child is slowed down by what was removed before: for a
// minute after a thousand files were removed, ext4 takes 600 us to make one and not 30, because it
// does not use their inodes again so soon (recently_deleted), and looks at each. So nothing is
// removed between the columns. A second run waits for a minute, or has a TMPDIR in a directory of
// its own after chattr +T, which puts what is made there into another part of the disk.
//
// The module is on its own for its dependencies: the library needs none of them.
package main
