package agentctx

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	textline "github.com/offshoot-sdk/offshoot/internal/text"
)

// A SkillOrigin ranks the places that skills come from. Of two skills with one name, the one of the
// greater origin counts. The zero SkillOrigin is SkillExtra.
type SkillOrigin uint8

// The origins, from the weakest to the strongest.
const (
	SkillExtra     SkillOrigin = iota // directories named in the configuration
	SkillBundled                      // shipped with the program
	SkillManaged                      // installed for all agents
	SkillPersonal                     // a person's own
	SkillProject                      // of the project that the workspace is in
	SkillWorkspace                    // of the workspace itself
)

var originNames = []string{
	SkillExtra: "extra", SkillBundled: "bundled", SkillManaged: "managed",
	SkillPersonal: "personal", SkillProject: "project", SkillWorkspace: "workspace",
}

// String returns the origin's name in lower case.
func (o SkillOrigin) String() string { return enum.String(originNames, "SkillOrigin", o) }

// MarshalText returns what String returns, or an error for a value without a name.
func (o SkillOrigin) MarshalText() ([]byte, error) {
	return enum.Marshal(originNames, "agentctx", "skill origin", o)
}

// UnmarshalText sets the value that has the name text, in any letter case. For any other text it
// returns an error and changes nothing.
func (o *SkillOrigin) UnmarshalText(text []byte) error {
	return enum.Unmarshal(originNames, "agentctx", "skill origin", text, o)
}

// A SkillSource is a directory that may hold skills.
type SkillSource struct {
	Origin SkillOrigin
	// FS is the directory. For one on disk it is the FS of an [os.Root]. nil: it holds none.
	FS fs.FS
	// Path is the directory as the session's tools reach it. The location of every skill in the
	// prompt begins with it.
	Path string
}

// Limits of discovery.
const (
	// maxSkillBytes is the size in bytes over which a SKILL.md is not read.
	maxSkillBytes = 256_000

	maxSkillDirs      = 300 // directories that are looked at in one source
	maxSkillsOfSource = 200
	maxSkillDepth     = 6 // levels below the root of a source
	skillFile         = "SKILL.md"
)

// maxSkillName is how many runes the name of a skill has at most.
const maxSkillName = 100

// badSkillName says why a text cannot be the name of a skill; "": it can. Names stand in lines of a
// prompt and in commands, and programs make paths of them.
func badSkillName(name string) string {
	switch {
	case textline.IsBlank(name):
		return "it is blank"
	case name == "." || name == "..":
		return textline.Quote(name) + " is a directory"
	case strings.ContainsAny(name, `/\`), len(name) > 1 && name[1] == ':': // a drive of Windows
		return textline.Quote(name) + " has a separator of paths"
	case utf8.RuneCountInString(name) > maxSkillName:
		return fmt.Sprintf("it has %d characters, the limit is %d", utf8.RuneCountInString(name),
			maxSkillName)
	case textline.Line(name) != name:
		return textline.Quote(name) + " has line breaks, double spaces or characters that are not drawn"
	}
	return ""
}

// A SkillEntry is a skill as [DiscoverSkills] found it.
type SkillEntry struct {
	Skill
	Origin SkillOrigin
	// Dir is the skill's directory within its source.
	Dir string
	// Key names the skill in the configuration. It is the Name if the skill does not say another.
	// [SkillHost.Config] says whose settings are found by it.
	Key string
	// Digest is of the text of the SKILL.md: 16 hexadecimal digits of its SHA-256.
	Digest string
	// Hidden keeps the skill out of the prompt. People can still call it by a command.
	Hidden bool
	// UserInvocable says that people may call the skill by a command.
	UserInvocable bool
	Homepage      string
	Emoji         string
	// PrimaryEnv names the variable that gets [SkillConfig.APIKey].
	PrimaryEnv string
	// Always makes the skill eligible without what it Requires. OS still holds.
	Always bool
	// OS names the systems on which the skill works, as "linux", "darwin" (or "macos") and
	// "windows" (or "win32"). Empty: it works on all.
	OS       []string
	Requires SkillRequirements

	source fs.FS
}

// SkillRequirements are what a skill needs on its host.
type SkillRequirements struct {
	Bins    []string // programs, of which all are needed
	AnyBins []string // programs, of which one is needed
	Env     []string // variables, of which all are needed
	Config  []string // settings, of which all must be on
}

// DiscoverSkills reads the skills of the sources. A skill is a directory with a SKILL.md, at most
// six levels below its source. DiscoverSkills does not look below a skill, nor into a directory
// that begins with a dot or is called node_modules. It looks at 300 directories of a source at
// most, and takes 200 skills of them. A SKILL.md has at most 256,000 bytes.
//
// A name has at most 100 characters on one line. A skill with another name, with the name of a
// directory such as "..", or with a separator of paths in its name is passed over.
//
// It returns the skills by name, one of each name, and a report on everything that it passed over.
// Of skills with one name the one of the stronger origin counts. Within an origin, the one of the
// earlier source counts.
//
// A SKILL.md is data from a party that may be hostile. DiscoverSkills refuses front matter of more
// than 16 KiB or 256 lines, and front matter that nests deeper than 16 levels, has more than 128
// keys in one mapping or more than 128 items in one list, or refers to another part of itself with
// a YAML alias or a merge key. A report's Why has at most 400 runes.
//
// A program that looks again and again uses a [SkillIndex].
func DiscoverSkills(sources ...SkillSource) ([]SkillEntry, []FileReport) {
	return NewSkillIndex(sources...).Look()
}

// strongest returns the skills by name, the strongest one of each name. It reports on the others
// behind the problems.
func strongest(found []SkillEntry, problems []FileReport) ([]SkillEntry, []FileReport) {
	slices.SortStableFunc(found, func(x, y SkillEntry) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(y.Origin, x.Origin))
	})
	var kept []SkillEntry
	for _, e := range found {
		if n := len(kept); n > 0 && kept[n-1].Name == e.Name {
			problems = append(problems, FileReport{
				Name: e.Name, Path: e.Path, Reason: ReasonRepeated,
				Why: excerpt(fmt.Sprintf(
					"repeated: the %s skill at %s stands for it", kept[n-1].Origin, kept[n-1].Path,
				), maxWhy),
			})
			continue
		}
		kept = append(kept, e)
	}
	return kept, problems
}

// A discovery is the search of one source.
type discovery struct {
	source      SkillSource
	known       map[string]readSkill // what an earlier search has read, by the name of the file
	read        map[string]readSkill // what this one has, for the next
	directories int
	found       []SkillEntry
	problems    []FileReport
}

func (d *discovery) addProblem(name string, r Reason, why string) {
	d.problems = append(d.problems, FileReport{
		Name: sanitize(name), Path: sanitize(path.Join(d.source.Path, name)), Reason: r,
		Why: excerpt(why, maxWhy),
	})
}

// walk looks at a directory, and below it unless it is a skill.
func (d *discovery) walk(dir string, depth int) {
	if d.directories++; d.directories > maxSkillDirs {
		if d.directories == maxSkillDirs+1 {
			d.addProblem(
				dir, ReasonTooMany,
				fmt.Sprintf("too many: only the first %d directories are looked at", maxSkillDirs),
			)
		}
		return
	}
	name := path.Join(dir, skillFile)
	e, err := d.skill(name)
	switch f := missingOrZero(name, err); {
	case err == nil:
		d.addSkill(dir, name, e)
		return
	case f.Reason != ReasonAbsent:
		d.addProblem(name, f.Reason, f.Why)
		return
	}
	entries, err := fs.ReadDir(d.source.FS, dir)
	if err != nil {
		d.addProblem(dir, ReasonUnreadable, fmt.Sprintf("cannot be listed: %v", err))
		return
	}
	for _, e := range entries {
		child := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" {
			continue
		}
		switch {
		case !validName(child):
			if e.IsDir() {
				d.addProblem(child, ReasonBadName, "bad name: "+textline.Quote(e.Name())+
					" has characters that a path in a prompt cannot have")
			}
		case !e.IsDir() && (e.Type()&fs.ModeSymlink == 0 || !d.leadsToDir(child)):
		case depth < maxSkillDepth:
			d.walk(child, depth+1)
		default:
			d.addProblem(dir, ReasonTooMany, fmt.Sprintf(
				"too deep: what is more than %d levels below the source is not looked at",
				maxSkillDepth,
			))
			return
		}
	}
}

// leadsToDir reports whether a symbolic link leads to a directory inside the source. It adds a
// problem if the link leads outside.
func (d *discovery) leadsToDir(name string) bool {
	_, info, err := resolveLinks(d.source.FS, name)
	if f := missingOrZero(name, err); f.Reason == ReasonOutside {
		d.addProblem(name, f.Reason, f.Why)
	}
	return err == nil && info.IsDir()
}

// addSkill records a skill, or why it is none.
func (d *discovery) addSkill(dir, name string, e SkillEntry) {
	e.Path, e.Dir, e.Origin, e.source = path.Join(
		d.source.Path, name,
	), dir, d.source.Origin, d.source.FS
	if e.Name == "" {
		e.Name = path.Base(path.Join(d.source.Path, dir))
	}
	if why := badSkillName(e.Name); why != "" {
		d.addProblem(name, ReasonBadName, "bad name: "+why)
		return
	}
	if e.Key = cmp.Or(e.Key, e.Name); badSkillName(e.Key) != "" {
		d.addProblem(name, ReasonBadName, "bad skillKey: "+badSkillName(e.Key))
		return
	}
	if len(d.found) == maxSkillsOfSource {
		d.addProblem(name, ReasonTooMany, fmt.Sprintf(
			"too many: only the first %d skills of a source are taken", maxSkillsOfSource,
		))
		return
	}
	d.found = append(d.found, e)
}

// missingOrZero is refused, with the zero File for no error.
func missingOrZero(name string, err error) WorkspaceFile {
	if err == nil {
		return WorkspaceFile{}
	}
	return missingFromError(name, err)
}
