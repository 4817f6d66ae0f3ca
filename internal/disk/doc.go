// Package disk is the small part of a file system that durable storage needs, as an interface.
// Tests put a disk behind it that is full, loses power or reports success falsely.
//
//	wal, dirstore --> FS, File --> OS()             the operating system's
//	                           \--> disktest.Disk    in memory: records syncs, injects faults
//
// A program may rely on two things only after a power failure: the content of a file as of its last
// Sync, and the names in a directory as of its last SyncDir.
//
// # Where to begin
//
// disk.go has the interfaces, the operating system's implementation, and MakeDir and MakeAll.
// secure.go refuses links, special files, and files of other users.
// lookup.go tells a missing file from a directory that is out of reach. mount.go lets a test serve
// a path from another FS.
package disk
