package agentctx

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// A skillDoc is the front matter of a SKILL.md: top-level keys and their
// values.
type skillDoc map[string]yaml.Node

// parseSkill reads the front matter of a SKILL.md. A description is required.
func parseSkill(text string) (SkillEntry, error) {
	head, ok := frontMatter(text)
	if !ok {
		return SkillEntry{}, refuse(Blank, "there is no front matter between lines of ---")
	}
	doc := parseHead(head)
	e := SkillEntry{
		Skill:         Skill{Name: doc.text("name"), Description: literal(doc.text("description"))},
		Hidden:        doc.flag("disable-model-invocation", false),
		UserInvocable: doc.flag("user-invocable", true),
		Homepage:      doc.text("homepage"),
	}
	if e.Description == "" {
		return SkillEntry{}, refuse(Blank, "the front matter has no description")
	}
	if err := doc.metadata(&e); err != nil {
		return SkillEntry{}, refuse(Unreadable, "its metadata cannot be read: %v", err)
	}
	return e, nil
}

// frontMatter returns what stands between the first line, which must be ---,
// and the next line that is.
func frontMatter(text string) (string, bool) {
	first, rest, ok := strings.Cut(clean(text), "\n")
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

// parseHead parses YAML. Where that fails, as for a description with a colon
// and a space in it, it falls back on the top-level lines of the form
// "key: value" as they are.
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

// rawLines takes every line "key: value" whose key is a word at its very
// beginning, with the indented lines that follow it.
func rawLines(head string) skillDoc {
	doc := skillDoc{}
	key, value := "", []string(nil)
	flush := func() {
		if key != "" {
			doc[key] = yaml.Node{Kind: yaml.ScalarNode, Value: unquote(strings.TrimSpace(strings.Join(value, "\n")))}
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
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// text returns a scalar, trimmed; "" if there is none.
func (d skillDoc) text(key string) string {
	node, ok := d[key]
	if !ok || node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(node.Value)
}

// flag returns a truth value in one of its usual spellings.
func (d skillDoc) flag(key string, standard bool) bool {
	switch strings.ToLower(d.text(key)) {
	case "true", "1", "yes", "on":
		return true
	case "false", "0", "no", "off":
		return false
	default:
		return standard
	}
}

// words is a list that may also be written as one string with commas.
type words []string

func (w *words) UnmarshalYAML(node *yaml.Node) error {
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
	Always     bool   `yaml:"always"`
	Emoji      string `yaml:"emoji"`
	Homepage   string `yaml:"homepage"`
	SkillKey   string `yaml:"skillKey"`
	PrimaryEnv string `yaml:"primaryEnv"`
	OS         words  `yaml:"os"`
	Requires   struct {
		Bins    words `yaml:"bins"`
		AnyBins words `yaml:"anyBins"`
		Env     words `yaml:"env"`
		Config  words `yaml:"config"`
	} `yaml:"requires"`
}

// metadataKeys are the names under which programs keep theirs, ours and those
// that the skills of the field are written for; the first that is there
// counts.
var metadataKeys = [...]string{"offshoot", "openclaw", "clawdbot"}

// metadata adds to e what stands below the key metadata, written as YAML or
// as a string of JSON.
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
		e.Always, e.Emoji, e.Key, e.PrimaryEnv, e.OS = m.Always, m.Emoji, m.SkillKey, m.PrimaryEnv, m.OS
		if e.Homepage == "" {
			e.Homepage = m.Homepage
		}
		e.Requires = SkillRequirements{Bins: m.Requires.Bins, AnyBins: m.Requires.AnyBins, Env: m.Requires.Env, Config: m.Requires.Config}
		return nil
	}
	return nil
}
