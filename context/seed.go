package agentctx

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
)

//go:embed templates/*.md
var templateFS embed.FS

// Templates returns the files of a new workspace: all core files but MEMORY.md.
func Templates() fs.FS {
	sub, err := fs.Sub(templateFS, "templates")
	if err != nil {
		return templateFS // cannot happen: the name is valid
	}
	return sub
}

// seedFile is where a workspace keeps what is known of its seeding.
const seedFile = ".offshoot/workspace.json"

// SeedOptions say how a workspace is seeded.
type SeedOptions struct {
	// Now is the time that Seed records. Zero: that of the clock.
	Now time.Time
	// Templates have the text of each file. nil: [Templates]. A file that they lack is not made.
	Templates fs.FS
	// Skip names files that Seed does not make. "*": it makes none.
	Skip []string
}

// SeedState says where a workspace stands before or after its first conversation.
type SeedState struct {
	Version int `json:"version"`
	// SeededAt is when BOOTSTRAP.md was made or first seen. Zero: neither has happened.
	SeededAt time.Time `json:"seededAt,omitzero"`
	// CompletedAt is when Seed found that the first conversation is over. Zero: it is not. After
	// that BOOTSTRAP.md is never made again.
	CompletedAt time.Time `json:"completedAt,omitzero"`
}

// Seeded is what [Seed] found and made.
type Seeded struct {
	State   SeedState
	Created []string // names of the files that were made
}

// Seed makes the core files that a workspace lacks. It never changes a file that exists.
//
// BOOTSTRAP.md is made once, in a workspace that has not been used yet. When it has been deleted,
// or when the workspace turns out to be in use, Seed records that and does not make it again. The
// record is the file .offshoot/workspace.json.
//
// The workspace is an [os.Root], so Seed touches nothing outside. An error names the workspace;
// files that were made before it stay. Calls for one workspace must not overlap.
func Seed(root *os.Root, o SeedOptions) (Seeded, error) {
	s, err := seedWorkspace(root, o)
	if err != nil {
		return s, fmt.Errorf("agentctx: seed workspace %q: %w", root.Name(), err)
	}
	return s, nil
}

func seedWorkspace(root *os.Root, o SeedOptions) (done Seeded, err error) {
	if o.Templates == nil {
		o.Templates = Templates()
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.Now = o.Now.Round(0).UTC() // as it is read back
	before, err := readSeedState(root)
	if err != nil {
		return done, err
	}
	done.State = before
	if slices.Contains(o.Skip, "*") {
		return done, nil
	}
	used, err := inUse(root, o.Templates)
	if err != nil {
		return done, err
	}
	for _, name := range CoreFiles() {
		if name == BootstrapFile || name == MemoryFile {
			continue
		}
		if err := done.createFile(root, o, name); err != nil {
			return done, err
		}
	}
	present, err := exists(root, BootstrapFile)
	if err != nil {
		return done, err
	}
	after, write := nextSeedState(before, present, used, o.Now)
	if write {
		if err := done.createFile(root, o, BootstrapFile); err != nil {
			return done, err
		}
		if !slices.Contains(done.Created, BootstrapFile) {
			after = before // skipped, or there is no template: decide again next time
		}
	}
	if after != before {
		if err := writeSeedState(root, after); err != nil {
			return done, err
		}
	}
	done.State = after
	return done, nil
}

// nextSeedState decides whether BOOTSTRAP.md is written, and returns the state after that. present
// says that the file exists, used what inUse returns.
//
//	            present          absent, unused     absent, used
//	new         seeded           write, seeded      completed
//	seeded      -                completed          completed
//	completed   -                -                  -
//
// A record without a time is that of an earlier version of Seed that was given no time: it has
// seeded the workspace.
func nextSeedState(s SeedState, present, used bool, now time.Time) (next SeedState, write bool) {
	recorded := s.Version > 0
	s.Version = 1
	switch {
	case !s.CompletedAt.IsZero():
	case present:
		if s.SeededAt.IsZero() {
			s.SeededAt = now
		}
	case recorded || !s.SeededAt.IsZero() || used:
		s.CompletedAt = now
	default:
		s.SeededAt = now
		return s, true
	}
	return s, false
}

// inUse reports whether the workspace has been used: it has a memory or a repository, or its
// IDENTITY.md or USER.md is not the template.
func inUse(root *os.Root, templates fs.FS) (bool, error) {
	for _, name := range []string{memoryDir, MemoryFile, memoryFileLower, ".git"} {
		if found, err := exists(root, name); found || err != nil {
			return found, err
		}
	}
	for _, name := range []string{IdentityFile, UserFile} {
		own, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		template, err := fs.ReadFile(templates, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if normalizeText(string(own)) != normalizeText(string(template)) {
			return true, nil
		}
	}
	return false, nil
}

func exists(root *os.Root, name string) (bool, error) {
	_, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// createFile writes a file from its template unless there is one of that name.
func (s *Seeded) createFile(root *os.Root, o SeedOptions, name string) error {
	if slices.Contains(o.Skip, name) {
		return nil
	}
	text, err := fs.ReadFile(o.Templates, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = writeNew(root, name, text)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		s.Created = append(s.Created, name)
	}
	return err
}

// writeNew writes a file that must not exist. If it fails it removes what it wrote.
func writeNew(root *os.Root, name string, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}

// readSeedState reads the state. A file that is not JSON counts as absent: the next state then
// follows from the workspace's files.
func readSeedState(root *os.Root) (SeedState, error) {
	var s SeedState
	text, err := root.ReadFile(seedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if !json.Valid(text) {
		return s, nil
	}
	return s, json.Unmarshal(text, &s)
}

// writeSeedState replaces the state in one step.
func writeSeedState(root *os.Root, s SeedState) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(seedFile), 0o755); err != nil {
		return err
	}
	temporary := seedFile + ".tmp"
	err = root.WriteFile(temporary, append(text, '\n'), 0o644)
	if err == nil {
		err = root.Rename(temporary, seedFile)
	}
	return err
}
