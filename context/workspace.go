package agentctx

import "io/fs"

// LoadWorkspace reads the named files of a workspace, or the eight of
// [CoreFiles] if none is named, and returns one File for each in that order;
// for each that is missing, the reason. memory.md stands in for an absent
// MEMORY.md. Over an [os.Root] (its FS method) no name or symbolic link leads
// outside; see [Loader] for what is refused.
func LoadWorkspace(fsys fs.FS, only ...string) []File {
	if only == nil {
		only = CoreFiles()
	}
	return Loader{}.read(fsys, only)
}
