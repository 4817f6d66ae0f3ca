package agentctx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	textline "github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Hook changes the list of a session's files before the list is filtered. It may add, replace and
// drop files, and may return the slice that it was given. Whatever it returns, the session sees
// only what its spec lets through. It does not change the request. A Loader that serves several
// goroutines calls it concurrently.
type Hook func(r LoadRequest, files []WorkspaceFile) []WorkspaceFile

// A Loader reads workspaces. The zero Loader reads the eight core files. A Loader is safe for
// concurrent use if its hooks are.
//
// A Loader reads a regular file of valid UTF-8, of at most 2 MiB, without a further hard link. It
// follows symbolic links only where they stay inside the workspace. It reads a file only if what it
// opened is what it had checked.
//
// A link must not show a session what its spec withholds. A symbolic link to a core file or memory
// note that the spec does not let through is refused before it is opened, see [Spec.Files]. A hard
// link is refused whatever it leads to. On a file system that resolves links without an Lstat of
// its own, the Loader sees only a link to a core file, and only if its files are those of the
// operating system. Where neither holds, as in an archive that has one content under two names,
// nothing tells that two names are one file.
//
// Use os.OpenRoot(dir) and its FS method for real directories, not os.DirFS. On an os.Root a race
// cannot lead outside. On another file system, a link that is exchanged between the check and the
// opening is only as safe as that file system makes it.
type Loader struct {
	// Memory reads memory/*.md too.
	Memory bool
	// Extra are names of further files and patterns for them, as for [fs.Glob]. A pattern reads at
	// most the last 256 files by name.
	Extra []string
	// Hooks change the list, one after the other, in this order.
	Hooks []Hook
	// Cache keeps what was read. nil: every load reads the files.
	Cache *Cache
}

// Validate returns the mistakes of the Loader, each as a *[FieldError] in one error, or nil: names
// and patterns that cannot be those of files in a workspace, and hooks that are nil.
func (l Loader) Validate() error {
	var list fieldErrors
	for i, p := range l.Extra {
		field := fmt.Sprintf("Loader.Extra[%d]", i)
		if !fs.ValidPath(p) {
			list.add(field, "is %s, which is not a slash-separated path or pattern inside the workspace",
				textline.Quote(p))
		} else if _, err := path.Match(p, ""); err != nil {
			list.add(field, "is %s, which is not a pattern", textline.Quote(p))
		}
	}
	for i, hook := range l.Hooks {
		if hook == nil {
			list.add(fmt.Sprintf("Loader.Hooks[%d]", i), "is nil")
		}
	}
	return list.join()
}

// A LoadRequest says for which session a [Loader] loads files, and from where.
type LoadRequest struct {
	Session session.Key
	// Spec is that of [Input]. The Loader does not open a file that it does not let through. It
	// looks at one only to find out whether a link leads there.
	Spec Spec
	// Workspace is the agent's directory. nil: only hooks add files.
	Workspace fs.FS
	// Execution is the directory that the session's tools work in, if it is another one. Its
	// AGENTS.md is shown as [ExecutionFile]. nil: the tools work in the Workspace.
	Execution fs.FS
	// Sandboxed says that the session is in a sandbox. The Loader does not look at it; hooks may.
	Sandboxed bool
}

// Load returns the files that the session may see, whether they exist or not, in the order in which
// a prompt shows them: core files, memory notes, extra files, then that of the execution directory.
// The hooks then change the list. Of a file that a hook names so that it cannot be shown, as with a
// blank name, the list has the mistake and not the content. A file that cannot be read is in the
// list with its Reason.
func (l Loader) Load(r LoadRequest) []WorkspaceFile {
	spec := resolveSpec(&Input{Session: r.Session, Spec: r.Spec})
	var files []WorkspaceFile
	if spec.Mode != ModeNone {
		files = l.load(r, spec)
	}
	for _, hook := range l.Hooks {
		files = hook(r, files)
	}
	for i, f := range files {
		if !validName(f.Name) && !reportsBadName(f) {
			files[i] = missingFile(f.Name, ReasonBadName,
				"a hook added a file as %q, which is not a slash-separated path inside the workspace",
				f.Name)
		}
	}
	return slices.DeleteFunc(
		files, func(f WorkspaceFile) bool { return !spec.admits(f) && !reportsBadName(f) },
	)
}

// reportsBadName reports whether f only says that a configured name or pattern is wrong. It stays
// in the list so that the report on the files shows the mistake.
func reportsBadName(f WorkspaceFile) bool {
	return f.Missing && f.Reason == ReasonBadName && f.Content == ""
}

func (l Loader) load(r LoadRequest, spec Spec) []WorkspaceFile {
	var files []WorkspaceFile
	if r.Workspace != nil {
		names := slices.DeleteFunc(CoreFiles(), func(name string) bool { return !spec.sees(name) })
		files = l.readFiles(r.Workspace, spec, names)
		var patterns []string
		if l.Memory {
			patterns = append(patterns, memoryNotes)
		}
		for _, p := range append(patterns, l.Extra...) {
			files = append(files, l.readPattern(r.Workspace, p, spec, files)...)
		}
	}
	if r.Execution != nil && spec.sees(ExecutionFile) {
		f := l.readFile(r.Execution, spec, AgentsFile)
		f.Name = ExecutionFile
		if f.Reason != ReasonAbsent {
			files = append(files, f)
		}
	}
	return files
}

// memoryNotes is the pattern of the files that Loader.Memory adds. A workspace without one is not
// reported.
const memoryNotes = memoryDir + "/*.md"

// maxMatches is the number of files that one pattern reads at most: the last ones by name, which
// are the newest of dated notes.
const maxMatches = 256

// readPattern reads the files that match a name or pattern and that have lacks.
func (l Loader) readPattern(
	fsys fs.FS, pattern string, spec Spec, have []WorkspaceFile,
) []WorkspaceFile {
	names := []string{pattern}
	if !fs.ValidPath(pattern) {
		return []WorkspaceFile{
			missingFile(
				pattern, ReasonBadName,
				"%q is not a slash-separated path or pattern inside the workspace", pattern,
			),
		}
	}
	if strings.ContainsAny(pattern, `*?[\`) {
		var err error
		if names, err = fs.Glob(fsys, pattern); err != nil {
			return []WorkspaceFile{
				missingFile(pattern, ReasonBadName, "%q is not a pattern: %v", pattern, err),
			}
		}
		if len(names) == 0 && pattern != memoryNotes {
			return []WorkspaceFile{missingFile(pattern, ReasonAbsent, "no file matches")}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !spec.sees(name) ||
			slices.ContainsFunc(have, func(f WorkspaceFile) bool { return f.Name == name })
	})
	var files []WorkspaceFile
	if n := len(names); n > maxMatches {
		files = append(
			files,
			missingFile(
				pattern, ReasonTooMany, "%d files match, the last %d are read", n, maxMatches,
			),
		)
		names = names[n-maxMatches:]
	}
	return append(files, l.readFiles(fsys, spec, names)...)
}

// readFiles reads the files in order, with memory.md in place of an absent
// MEMORY.md.
func (l Loader) readFiles(fsys fs.FS, spec Spec, names []string) []WorkspaceFile {
	files := make([]WorkspaceFile, 0, len(names))
	for _, name := range names {
		f := l.readFile(fsys, spec, name)
		if name == MemoryFile && f.Reason == ReasonAbsent {
			if lower := l.readFile(fsys, spec, memoryFileLower); lower.Reason != ReasonAbsent {
				f = lower
			}
		}
		files = append(files, f)
	}
	return files
}

// readFile reads one file. It does not open what a link leads to and the spec withholds.
func (l Loader) readFile(fsys fs.FS, spec Spec, name string) WorkspaceFile {
	if fsys == nil {
		return missingFile(name, ReasonAbsent, "there is no workspace")
	}
	if !validName(name) {
		return missingFile(
			name, ReasonBadName, "%q is not a slash-separated path inside the workspace", name,
		)
	}
	began := time.Now()
	target, info, err := resolveLinks(fsys, name)
	if err != nil {
		return missingFromError(name, err)
	}
	leadsTo := linkTarget(fsys, name, target, info)
	if spec.withholds(leadsTo) {
		f := missingFile(
			name, ReasonExcluded, "it is a link to %s, which is not among the files of the spec",
			leadsTo,
		)
		f.Target = leadsTo
		return f
	}
	read := func() (string, error) { return readChecked(fsys, target, info, maxFileBytes) }
	var content string
	if id, ok := identify(info); ok && l.Cache != nil {
		content, err = l.Cache.get(id, began, read)
	} else {
		content, err = read()
	}
	if err != nil {
		return missingFromError(name, err)
	}
	return WorkspaceFile{Name: name, Path: name, Target: leadsTo, Content: content}
}

// missingFromError returns the record of a file that was not read because of err.
func missingFromError(name string, err error) WorkspaceFile {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return missingFile(name, r.reason, "%s", r.why)
	case errors.Is(err, fs.ErrNotExist):
		return missingFile(name, ReasonAbsent, "absent")
	case errors.Is(err, fs.ErrPermission):
		return missingFile(name, ReasonUnreadable, "no permission to read it")
	default:
		return missingFile(name, ReasonUnreadable, "cannot be read: %v", err)
	}
}

// A refusal is the error of a file that exists and must not be read.
type refusal struct {
	reason Reason
	why    string
}

func (r *refusal) Error() string { return r.why }

func newRefusal(reason Reason, format string, args ...any) error {
	return &refusal{reason: reason, why: excerpt(fmt.Sprintf(format, args...), maxWhy)}
}

// maxLinks is the number of symbolic links that may lie on the way to one file.
const maxLinks = 40

// resolveLinks follows the symbolic links of name as long as they stay inside, and returns the name
// that they lead to with its description. A link that leads outside is a refusal. A file system
// that has no Lstat of its own resolves links itself.
func resolveLinks(fsys fs.FS, name string) (string, fs.FileInfo, error) {
	links, done := 0, ""
	for rest := name; ; {
		var next string
		var more bool
		if next, rest, more = strings.Cut(rest, "/"); done != "" {
			next = path.Join(done, next)
		}
		info, err := fs.Lstat(fsys, next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if done = next; !more {
				return done, info, nil
			}
			if !info.IsDir() {
				return "", nil, fs.ErrNotExist
			}
			continue
		}
		if links++; links > maxLinks {
			return "", nil, newRefusal(
				ReasonOutside, "more than %d symbolic links lie on the way", maxLinks,
			)
		}
		target, err := fs.ReadLink(fsys, next)
		if err != nil {
			return "", nil, err
		}
		to := path.Join(path.Dir(next), target)
		if path.IsAbs(target) || !fs.ValidPath(to) || to == "." || strings.Contains(target, `\`) {
			return "", nil, newRefusal(
				ReasonOutside, "a symbolic link leads to %q, outside the workspace", target,
			)
		}
		if done = ""; more {
			to += "/" + rest
		}
		rest = to
	}
}

// linkTarget returns the name of the file that a name leads to by links, or "" if the name is the
// file itself. target and info are what resolveLinks returned.
//
// Of a file with several names, linkTarget returns that of a core file or memory note: USER.md may
// be a link itself, and some file systems take user.md for USER.md. It asks for the last core file
// first, because the last ones are shown to the fewest sessions.
func linkTarget(fsys fs.FS, name, target string, info fs.FileInfo) string {
	if _, showsLinks := fsys.(fs.ReadLinkFS); target == name && (showsLinks || !onDisk(info)) {
		return ""
	}
	for _, core := range slices.Backward(append(CoreFiles(), memoryFileLower)) {
		if core == name {
			continue
		}
		to, other, err := resolveLinks(fsys, core)
		if err == nil && (to == target || onDisk(info) && os.SameFile(info, other)) {
			return core
		}
	}
	if target == name {
		return ""
	}
	return noteName(fsys, target)
}

// noteName returns the name below memory of a file that lies there, and any other name as it is.
// The directory may be a link itself.
func noteName(fsys fs.FS, name string) string {
	notes, info, err := resolveLinks(fsys, memoryDir)
	if err != nil {
		return name
	}
	if rest, ok := strings.CutPrefix(name, notes+"/"); ok {
		return memoryDir + "/" + rest
	}
	top, rest, _ := strings.Cut(name, "/")
	if other, err := fs.Lstat(fsys, top); err == nil && onDisk(info) && os.SameFile(info, other) {
		return memoryDir + "/" + rest
	}
	return name
}

// LoadWorkspace reads the named files of a workspace, or the eight of [CoreFiles] if only is nil.
// It returns one WorkspaceFile for each name, in that order. One that could not be read is Missing
// and has the reason. memory.md stands in for an absent MEMORY.md. Over the FS of an [os.Root]
// neither a name nor a symbolic link leads outside. See [Loader] for what is refused.
func LoadWorkspace(fsys fs.FS, only ...string) []WorkspaceFile {
	if only == nil {
		only = CoreFiles()
	}
	return Loader{}.readFiles(fsys, topLevelSpec(), only)
}
