package agentctx

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A SkillOrigin ranks the places that skills come from: of two skills with
// one name that of the later origin counts.
type SkillOrigin uint8

// The origins, the weakest first.
const (
	SkillExtra     SkillOrigin = iota // directories named in the configuration
	SkillBundled                      // shipped with the program
	SkillManaged                      // installed for all agents
	SkillPersonal                     // a person's own
	SkillProject                      // of the project that the workspace is in
	SkillWorkspace                    // of the workspace itself
)

var originNames = [...]string{
	SkillExtra: "extra", SkillBundled: "bundled", SkillManaged: "managed",
	SkillPersonal: "personal", SkillProject: "project", SkillWorkspace: "workspace",
}

// String returns the origin's name in lower case.
func (o SkillOrigin) String() string {
	if int(o) < len(originNames) {
		return originNames[o]
	}
	return fmt.Sprintf("SkillOrigin(%d)", uint8(o))
}

// MarshalText returns the name, or an error for a value without one.
func (o SkillOrigin) MarshalText() ([]byte, error) {
	return marshalName("SkillOrigin", originNames[:], int(o))
}

// UnmarshalText accepts exactly the names that String returns.
func (o *SkillOrigin) UnmarshalText(text []byte) error {
	i, err := unmarshalName("SkillOrigin", originNames[:], text)
	if err == nil {
		*o = SkillOrigin(i)
	}
	return err
}

// A SkillSource is a directory that may hold skills.
type SkillSource struct {
	Origin SkillOrigin
	// FS is the directory; for one on disk that of an os.Root.
	FS fs.FS
	// Path is the directory as the session's tools reach it. It stands
	// before the location of every skill in the prompt.
	Path string
}

// Limits of discovery.
const (
	// MaxSkillBytes is the size over which a SKILL.md is not read.
	MaxSkillBytes = 256_000

	maxSkillDirs  = 300 // directories that are looked at in one source
	maxSkillDepth = 6   // levels below the root of a source
	skillFile     = "SKILL.md"
)

// A SkillEntry is a skill as it was found.
type SkillEntry struct {
	Skill
	Origin SkillOrigin
	// Dir is the skill's directory within its source.
	Dir string
	// Key names the skill in the configuration; the Name if it says nothing.
	Key string
	// Hidden keeps the skill out of the prompt; it can still be called for.
	Hidden bool
	// UserInvocable says that people may call for it by a command.
	UserInvocable bool
	Homepage      string
	Emoji         string
	// PrimaryEnv is the variable that the configured API key goes to.
	PrimaryEnv string
	// Always waives Requires, but not OS.
	Always bool
	// OS names the systems it works on, as "linux", "darwin", "windows"
	// (which "win32" stands for too); none: all.
	OS       []string
	Requires SkillRequirements

	source fs.FS
}

// SkillRequirements is what a skill needs to be of use.
type SkillRequirements struct {
	Bins    []string // programs, all of them
	AnyBins []string // programs, one of them
	Env     []string // variables, all of them
	Config  []string // settings that must be on, all of them
}

// DiscoverSkills reads the skills of the sources: every directory with a
// SKILL.md, up to six levels deep, that is not below another skill, does not
// begin with a dot and is not called node_modules. It returns them by name,
// one of each, and an account of everything that was passed over. Of skills
// with one name the one of the stronger origin counts; within an origin that
// of the earlier source.
func DiscoverSkills(sources ...SkillSource) ([]SkillEntry, []Account) {
	var found []SkillEntry
	var problems []Account
	for _, s := range sources {
		d := discovery{source: s}
		if s.FS != nil {
			d.walk(".", 0)
		}
		found = append(found, d.found...)
		problems = append(problems, d.problems...)
	}
	slices.SortStableFunc(found, func(x, y SkillEntry) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(y.Origin, x.Origin))
	})
	var kept []SkillEntry
	for _, e := range found {
		if n := len(kept); n > 0 && kept[n-1].Name == e.Name {
			problems = append(problems, Account{
				Name: e.Name, Path: e.Path, Reason: Repeated,
				Why: fmt.Sprintf("repeated: the %s skill at %s stands for it", kept[n-1].Origin, kept[n-1].Path),
			})
			continue
		}
		kept = append(kept, e)
	}
	return kept, problems
}

// A discovery is the search of one source.
type discovery struct {
	source   SkillSource
	looked   int
	found    []SkillEntry
	problems []Account
}

func (d *discovery) problem(name string, r Reason, why string) {
	d.problems = append(d.problems, Account{Name: name, Path: path.Join(d.source.Path, name), Reason: r, Why: why})
}

// walk looks at a directory, and below it unless it is a skill.
func (d *discovery) walk(dir string, depth int) {
	if d.looked++; d.looked > maxSkillDirs {
		if d.looked == maxSkillDirs+1 {
			d.problem(dir, TooMany, fmt.Sprintf("too many: only the first %d directories are looked at", maxSkillDirs))
		}
		return
	}
	name := path.Join(dir, skillFile)
	text, err := readBounded(d.source.FS, name, MaxSkillBytes)
	switch f := refusedOr(name, err); {
	case err == nil:
		d.add(dir, name, text)
		return
	case f.Reason != Absent:
		d.problem(name, f.Reason, f.Why)
		return
	case depth == maxSkillDepth:
		return
	}
	entries, err := fs.ReadDir(d.source.FS, dir)
	if err != nil {
		d.problem(dir, Unreadable, fmt.Sprintf("cannot be listed: %v", err))
		return
	}
	for _, e := range entries {
		child := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" || !validName(child) {
			continue
		}
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && d.leadsToDir(child) {
			d.walk(child, depth+1)
		}
	}
}

// leadsToDir reports whether a symbolic link leads to a directory inside.
func (d *discovery) leadsToDir(name string) bool {
	_, info, err := resolveLinks(d.source.FS, name)
	if f := refusedOr(name, err); f.Reason == Outside {
		d.problem(name, f.Reason, f.Why)
	}
	return err == nil && info.IsDir()
}

// add records a skill, or why it is none.
func (d *discovery) add(dir, name, text string) {
	e, err := parseSkill(text)
	if err != nil {
		f := refused(name, err)
		d.problem(name, f.Reason, f.Why)
		return
	}
	e.Path, e.Dir, e.Origin, e.source = path.Join(d.source.Path, name), dir, d.source.Origin, d.source.FS
	if e.Name == "" {
		e.Name = path.Base(path.Join(d.source.Path, dir))
	}
	e.Name = literal(e.Name)
	e.Key = cmp.Or(e.Key, e.Name)
	if e.Name == "" || e.Name == "." {
		d.problem(name, BadName, "bad name: neither the file nor the directory gives one")
		return
	}
	d.found = append(d.found, e)
}

// refusedOr is refused, with the zero File for no error.
func refusedOr(name string, err error) File {
	if err == nil {
		return File{}
	}
	return refused(name, err)
}
