package agentctx

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/offshoot-sdk/offshoot/internal/enum"
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

	maxSkillDirs  = 300 // directories that are looked at in one source
	maxSkillDepth = 6   // levels below the root of a source
	skillFile     = "SKILL.md"
)

// A SkillEntry is a skill as [DiscoverSkills] found it.
type SkillEntry struct {
	Skill
	Origin SkillOrigin
	// Dir is the skill's directory within its source.
	Dir string
	// Key names the skill in the configuration. It is the Name if the skill does not say another.
	Key string
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
// most.
//
// It returns the skills by name, one of each name, and a report on everything that it passed over.
// Of skills with one name the one of the stronger origin counts. Within an origin, the one of the
// earlier source counts.
func DiscoverSkills(sources ...SkillSource) ([]SkillEntry, []FileReport) {
	var found []SkillEntry
	var problems []FileReport
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
			problems = append(problems, FileReport{
				Name: e.Name, Path: e.Path, Reason: ReasonRepeated,
				Why: fmt.Sprintf(
					"repeated: the %s skill at %s stands for it", kept[n-1].Origin, kept[n-1].Path,
				),
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
	directories int
	found       []SkillEntry
	problems    []FileReport
}

func (d *discovery) addProblem(name string, r Reason, why string) {
	d.problems = append(
		d.problems,
		FileReport{Name: name, Path: path.Join(d.source.Path, name), Reason: r, Why: why},
	)
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
	text, err := readBounded(d.source.FS, name, maxSkillBytes)
	switch f := missingOrZero(name, err); {
	case err == nil:
		d.addSkill(dir, name, text)
		return
	case f.Reason != ReasonAbsent:
		d.addProblem(name, f.Reason, f.Why)
		return
	case depth == maxSkillDepth:
		return
	}
	entries, err := fs.ReadDir(d.source.FS, dir)
	if err != nil {
		d.addProblem(dir, ReasonUnreadable, fmt.Sprintf("cannot be listed: %v", err))
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

// leadsToDir reports whether a symbolic link leads to a directory inside the source. It adds a
// problem if the link leads outside.
func (d *discovery) leadsToDir(name string) bool {
	_, info, err := resolveLinks(d.source.FS, name)
	if f := missingOrZero(name, err); f.Reason == ReasonOutside {
		d.addProblem(name, f.Reason, f.Why)
	}
	return err == nil && info.IsDir()
}

// add records a skill, or why it is none.
func (d *discovery) addSkill(dir, name, text string) {
	e, err := parseSkill(text)
	if err != nil {
		f := missingFromError(name, err)
		d.addProblem(name, f.Reason, f.Why)
		return
	}
	e.Path, e.Dir, e.Origin, e.source = path.Join(
		d.source.Path, name,
	), dir, d.source.Origin, d.source.FS
	if e.Name == "" {
		e.Name = path.Base(path.Join(d.source.Path, dir))
	}
	e.Name = sanitize(e.Name)
	e.Key = cmp.Or(e.Key, e.Name)
	if e.Name == "" || e.Name == "." {
		d.addProblem(name, ReasonBadName, "bad name: neither the file nor the directory gives one")
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

// A skillDoc is the front matter of a SKILL.md: its top-level keys with their values.
type skillDoc map[string]yaml.Node

// parseSkill reads the front matter of a SKILL.md. A description is required.
func parseSkill(text string) (SkillEntry, error) {
	head, ok := frontMatter(text)
	if !ok {
		return SkillEntry{}, newRefusal(
			ReasonBlank, "there is no front matter between lines of ---",
		)
	}
	doc := parseHead(head)
	e := SkillEntry{
		Skill: Skill{
			Name: doc.scalar("name"), Description: sanitize(doc.scalar("description")),
		},
		Hidden:        doc.boolean("disable-model-invocation", false),
		UserInvocable: doc.boolean("user-invocable", true),
		Homepage:      doc.scalar("homepage"),
	}
	if e.Description == "" {
		return SkillEntry{}, newRefusal(ReasonBlank, "the front matter has no description")
	}
	if err := doc.metadata(&e); err != nil {
		return SkillEntry{}, newRefusal(ReasonUnreadable, "its metadata cannot be read: %v", err)
	}
	return e, nil
}

// frontMatter returns the lines between the first line, which must be ---, and the next line that
// is ---. It returns false if one of the two is missing.
func frontMatter(text string) (string, bool) {
	first, rest, ok := strings.Cut(normalizeText(text), "\n")
	if !ok || strings.TrimRight(first, " \t") != "---" {
		return "", false
	}
	end := 0
	for line := range strings.SplitAfterSeq(rest, "\n") {
		if strings.TrimRight(line, " \t\n") == "---" {
			return rest[:end], true
		}
		end += len(line)
	}
	return "", false
}

// parseHead parses front matter as YAML. Where that fails, as for a description with a colon and a
// space in it, it falls back on the top-level lines of the form "key: value" as they are.
func parseHead(head string) skillDoc {
	doc := skillDoc{}
	raw := rawLines(head)
	if err := yaml.Unmarshal([]byte(head), &doc); err != nil || doc == nil {
		return raw
	}
	for key, node := range raw {
		if got, ok := doc[key]; !ok || key == "description" && got.Kind != yaml.ScalarNode {
			doc[key] = node
		}
	}
	return doc
}

// rawLines returns every line "key: value" that begins with a word as its key. The indented lines
// after it belong to its value.
func rawLines(head string) skillDoc {
	doc := skillDoc{}
	key, value := "", []string(nil)
	flush := func() {
		if key != "" {
			doc[key] = yaml.Node{
				Kind: yaml.ScalarNode, Value: unquote(strings.TrimSpace(strings.Join(value, "\n"))),
			}
		}
	}
	for line := range strings.SplitSeq(head, "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			value = append(value, strings.TrimSpace(line))
			continue
		}
		flush()
		var first string
		var ok bool
		if key, first, ok = strings.Cut(line, ":"); !ok || !isWord(key) {
			key = ""
		}
		value = append(value[:0], strings.TrimSpace(first))
	}
	flush()
	return doc
}

// unquote takes off the quotation marks around a value.
func unquote(s string) string {
	if n := len(s); n > 1 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// isWord reports whether a key is made of letters, digits, "-" and "_".
func isWord(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' &&
			r != '_'
	})
}

// text returns a scalar, trimmed; "" if there is none.
func (d skillDoc) scalar(key string) string {
	node, ok := d[key]
	if !ok || node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(node.Value)
}

// boolean returns a truth value in one of its usual spellings.
func (d skillDoc) boolean(key string, standard bool) bool {
	switch strings.ToLower(d.scalar(key)) {
	case "true", "1", "yes", "on":
		return true
	case "false", "0", "no", "off":
		return false
	default:
		return standard
	}
}

// stringList is a list that may also be written as one string with commas.
type stringList []string

func (w *stringList) UnmarshalYAML(node *yaml.Node) error {
	var list []string
	if node.Kind == yaml.ScalarNode {
		list = strings.Split(node.Value, ",")
	} else if err := node.Decode(&list); err != nil {
		return err
	}
	for _, word := range list {
		if word = strings.TrimSpace(word); word != "" {
			*w = append(*w, word)
		}
	}
	return nil
}

// skillMetadata is what tools of the field keep below the key metadata.
type skillMetadata struct {
	Always     bool       `yaml:"always"`
	Emoji      string     `yaml:"emoji"`
	Homepage   string     `yaml:"homepage"`
	SkillKey   string     `yaml:"skillKey"`
	PrimaryEnv string     `yaml:"primaryEnv"`
	OS         stringList `yaml:"os"`
	Requires   struct {
		Bins    stringList `yaml:"bins"`
		AnyBins stringList `yaml:"anyBins"`
		Env     stringList `yaml:"env"`
		Config  stringList `yaml:"config"`
	} `yaml:"requires"`
}

// metadataKeys are the names under which programs keep their metadata: Offshoot's own, then those
// of the programs that the field's skills are written for. The first one that a skill has counts.
var metadataKeys = [...]string{"offshoot", "openclaw", "clawdbot"}

// metadata adds to e what stands below the key metadata, as YAML or as a string of JSON.
func (d skillDoc) metadata(e *SkillEntry) error {
	node, ok := d["metadata"]
	if !ok {
		return nil
	}
	programs := map[string]yaml.Node{}
	if node.Kind == yaml.ScalarNode {
		if err := yaml.Unmarshal([]byte(node.Value), &programs); err != nil {
			return err
		}
	} else if err := node.Decode(&programs); err != nil {
		return err
	}
	for _, key := range metadataKeys {
		own, ok := programs[key]
		if !ok {
			continue
		}
		var m skillMetadata
		if err := own.Decode(&m); err != nil {
			return err
		}
		e.Always, e.Emoji, e.Key = m.Always, m.Emoji, m.SkillKey
		e.PrimaryEnv, e.OS = m.PrimaryEnv, m.OS
		if e.Homepage == "" {
			e.Homepage = m.Homepage
		}
		e.Requires = SkillRequirements{
			Bins: m.Requires.Bins, AnyBins: m.Requires.AnyBins, Env: m.Requires.Env,
			Config: m.Requires.Config,
		}
		return nil
	}
	return nil
}
