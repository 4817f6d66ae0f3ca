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

// Templates returns the files that a new workspace begins with: all core
// files but MEMORY.md.
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
	// Now is the time that is recorded.
	Now time.Time
	// Templates hold the files; nil: [Templates]. One that lacks a file
	// leaves it out.
	Templates fs.FS
	// Skip names files that are not made; "*" is all of them.
	Skip []string
}

// SeedState is how far a workspace is from its first conversation.
type SeedState struct {
	Version int `json:"version"`
	// SeededAt is when BOOTSTRAP.md was made or first seen; zero: never.
	SeededAt time.Time `json:"seededAt,omitzero"`
	// CompletedAt is when it was found to be done with; zero: it is not.
	// After that BOOTSTRAP.md is never made again.
	CompletedAt time.Time `json:"completedAt,omitzero"`
}

// Seeded says what [Seed] did and found.
type Seeded struct {
	State   SeedState
	Created []string // names of the files that were made
}

// Seed makes the core files that a workspace lacks. It never changes a file
// that is there. BOOTSTRAP.md is made once, in a workspace that nobody has
// used yet; when it has been deleted, or the workspace turns out to be in use,
// that is recorded and it is not made again.
//
// The workspace is an [os.Root], so nothing outside is touched.
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

// nextSeedState decides what becomes of BOOTSTRAP.md: whether it is to be
// written, and the state after that.
//
//	            present          absent, unused     absent, used
//	new         seeded           write, seeded      completed
//	seeded      -                completed          completed
//	completed   -                -                  -
func nextSeedState(s SeedState, present, used bool, now time.Time) (next SeedState, write bool) {
	s.Version = 1
	switch {
	case !s.CompletedAt.IsZero():
	case present:
		if s.SeededAt.IsZero() {
			s.SeededAt = now
		}
	case !s.SeededAt.IsZero() || used:
		s.CompletedAt = now
	default:
		s.SeededAt = now
		return s, true
	}
	return s, false
}

// inUse reports whether somebody has worked in the workspace: it has a
// memory or a repository, or its IDENTITY.md or USER.md is not the template.
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

// writeNew writes a file that must not exist, wholly or not at all.
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

// readSeedState reads the state; one that is no JSON counts as none, which
// the state of the files then corrects.
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
