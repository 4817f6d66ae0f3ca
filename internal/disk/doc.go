// Package disk is the little of a file system that durable storage needs, as an interface, so that tests can be the disk that is full,
// loses power or lies.
//
//	wal, session --> FS, File --> OS()             the operating system's
//	                         \--> disktest.Disk    in memory: records what was synced, injects faults, loses power
//
// What a program may rely on after a power failure is only this: the content of a file as of its last Sync, and the names in a
// directory as of the last SyncDir.
package disk
