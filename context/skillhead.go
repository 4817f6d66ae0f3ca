package agentctx

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of the front matter of a SKILL.md. They bound the time and the memory that a hostile file
// can take: reading one takes 16 MiB at most.
const (
	maxHeadBytes = 16 << 10
	maxHeadLines = 256
	maxHeadDepth = 16  // levels of mappings and lists
	maxHeadItems = 128 // keys of one mapping, or items of one list
)

// maxWhy is the length in runes to which FileReport.Why and the errors behind it are cut.
const maxWhy = 400

// A skillDoc is the front matter of a SKILL.md: its top-level keys with their values.
type skillDoc map[string]*yaml.Node

// parseSkill reads the front matter of a SKILL.md. A description is required.
func parseSkill(text string) (SkillEntry, error) {
	head, err := frontMatter(text)
	if err != nil {
		return SkillEntry{}, err
	}
	doc, err := parseHead(head)
	if err != nil {
		return SkillEntry{}, err
	}
	e := SkillEntry{
		Skill: Skill{
			Name: doc.scalar("name"), Description: sanitize(doc.scalar("description")),
		},
		Hidden:        doc.boolean("disable-model-invocation", false),
		UserInvocable: doc.boolean("user-invocable", true),
		Digest:        digestOf([]byte(text)),
		Homepage:      doc.scalar("homepage"),
	}
	if e.Description == "" {
		return SkillEntry{}, newRefusal(ReasonBlank, "the front matter has no description")
	}
	if err := doc.readMetadata(&e); err != nil {
		return SkillEntry{}, newRefusal(ReasonUnreadable, "its metadata cannot be read: %v", err)
	}
	return e, nil
}

// frontMatter returns the lines between the first line, which must be ---, and the next line that
// is ---. It reads no further than the limits of front matter allow.
func frontMatter(text string) (string, error) {
	first, rest, ok := strings.Cut(normalizeText(text), "\n")
	if !ok || strings.TrimRight(first, " \t") != "---" {
		return "", errNoHead()
	}
	end, lines := 0, 0
	for line := range strings.SplitAfterSeq(rest, "\n") {
		if strings.TrimRight(line, " \t\n") == "---" {
			return rest[:end], nil
		}
		end += len(line)
		lines++
		switch {
		case end > maxHeadBytes:
			return "", newRefusal(
				ReasonTooLarge, "its front matter is over the limit of %d bytes", maxHeadBytes,
			)
		case lines > maxHeadLines:
			return "", newRefusal(
				ReasonTooLarge, "its front matter is over the limit of %d lines", maxHeadLines,
			)
		}
	}
	return "", errNoHead()
}

func errNoHead() error {
	return newRefusal(ReasonBlank, "there is no front matter between lines of ---")
}

// parseHead parses front matter as YAML. Where that fails, as for a description with a colon and a
// space in it, it falls back on the top-level lines of the form "key: value" as they are. Of a key
// that stands twice, the last one counts. The error is a refusal: the front matter is over a limit.
func parseHead(head string) (skillDoc, error) {
	raw := rawLines(head)
	root, err := parseYAML(head)
	switch {
	case isRefusal(err):
		return nil, err
	case err != nil || root == nil || root.Kind != yaml.MappingNode:
		return raw, nil //nolint:nilerr // what is not YAML is read line by line
	}
	doc := skillDoc{}
	for key, value := range pairs(root) {
		if key.Kind == yaml.ScalarNode {
			doc[key.Value] = value
		}
	}
	for key, node := range raw {
		if got, ok := doc[key]; !ok || key == "description" && got.Kind != yaml.ScalarNode {
			doc[key] = node
		}
	}
	return doc, nil
}

// rawLines returns every line "key: value" that begins with a word as its key. The indented lines
// after it belong to its value.
func rawLines(head string) skillDoc {
	doc := skillDoc{}
	key, value := "", []string(nil)
	flush := func() {
		if key != "" {
			doc[key] = &yaml.Node{
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

// scalar returns a scalar, trimmed; "" if there is none.
func (d skillDoc) scalar(key string) string {
	node, ok := d[key]
	if !ok || node.Kind != yaml.ScalarNode || isNull(node) {
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

// parseYAML parses a text of front matter once, and checks it before a caller walks it. It returns
// nil for a text without a value. The error is a refusal if the text is over a limit, and the
// parser's own if the text is not YAML.
//
// A yaml.Node is never decoded into a Go value: the decoder compares all keys of a mapping with
// each other and follows aliases.
func parseYAML(text string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	return root, checkNode(root, 1)
}

// isRefusal reports whether err says that a text is over a limit.
func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// checkNode refuses a value that is over a limit, an alias and a merge key.
func checkNode(n *yaml.Node, depth int) error {
	items := len(n.Content)
	switch n.Kind {
	case yaml.ScalarNode:
		return nil
	case yaml.MappingNode:
		items /= 2
		for key := range pairs(n) {
			if key.ShortTag() == "!!merge" {
				return newRefusal(
					ReasonUnreadable, "line %d: its front matter has a YAML merge key", key.Line,
				)
			}
		}
	case yaml.SequenceNode:
	default:
		return newRefusal(ReasonUnreadable, "line %d: its front matter has a YAML alias", n.Line)
	}
	switch {
	case items > maxHeadItems:
		return newRefusal(
			ReasonTooLarge, "line %d: its front matter has %d keys or items in one place, "+
				"over the limit of %d", n.Line, items, maxHeadItems,
		)
	case depth > maxHeadDepth:
		return newRefusal(
			ReasonTooLarge, "line %d: its front matter nests deeper than %d levels", n.Line,
			maxHeadDepth,
		)
	}
	for _, child := range n.Content {
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pairs yields the keys of a mapping with their values.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// isNull reports whether a scalar stands for nothing.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// metadataKeys are the names under which programs keep their metadata: Offshoot's own, then those
// of the programs that the field's skills are written for. The first one that a skill has counts.
var metadataKeys = [...]string{"offshoot", "openclaw", "clawdbot"}

// readMetadata adds to e what stands below the key metadata, as YAML or as a string of JSON.
func (d skillDoc) readMetadata(e *SkillEntry) error {
	node, ok := d["metadata"]
	if !ok {
		return nil
	}
	if node.Kind == yaml.ScalarNode {
		var err error
		if node, err = parseYAML(node.Value); err != nil || node == nil {
			return err
		}
	}
	var r metadataReader
	programs := r.mapping("metadata", node)
	for _, key := range metadataKeys {
		if own, ok := programs[key]; ok {
			r.read(e, r.mapping(key, own))
			break
		}
	}
	return r.err
}

// A metadataReader takes fields out of metadata and keeps the first error.
type metadataReader struct{ err error }

// read sets the fields of e from the metadata of one program.
func (r *metadataReader) read(e *SkillEntry, own map[string]*yaml.Node) {
	e.Always = r.boolean("always", own["always"])
	e.Emoji = r.text("emoji", own["emoji"])
	e.Key = r.text("skillKey", own["skillKey"])
	e.PrimaryEnv = r.text("primaryEnv", own["primaryEnv"])
	e.OS = r.list("os", own["os"])
	if homepage := r.text("homepage", own["homepage"]); e.Homepage == "" {
		e.Homepage = homepage
	}
	needs := r.mapping("requires", own["requires"])
	e.Requires = SkillRequirements{
		Bins: r.list("bins", needs["bins"]), AnyBins: r.list("anyBins", needs["anyBins"]),
		Env: r.list("env", needs["env"]), Config: r.list("config", needs["config"]),
	}
}

// fail keeps the first error.
func (r *metadataReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// mapping returns the values of a mapping by their keys. A nil or null node has none.
func (r *metadataReader) mapping(name string, n *yaml.Node) map[string]*yaml.Node {
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fail("line %d: %s is not a mapping", n.Line, name)
		return nil
	}
	values := make(map[string]*yaml.Node, len(n.Content)/2)
	for key, value := range pairs(n) {
		if _, again := values[key.Value]; again {
			r.fail("line %d: %s has the key %q twice", key.Line, name, excerpt(key.Value, 40))
		}
		values[key.Value] = value
	}
	return values
}

// text returns a scalar. A nil or null node is "".
func (r *metadataReader) text(name string, n *yaml.Node) string {
	switch {
	case n == nil || isNull(n):
		return ""
	case n.Kind != yaml.ScalarNode:
		r.fail("line %d: %s is not a single value", n.Line, name)
		return ""
	}
	return n.Value
}

// boolean returns a truth value. A nil or null node is false.
func (r *metadataReader) boolean(name string, n *yaml.Node) bool {
	switch value := strings.ToLower(r.text(name, n)); value {
	case "true", "yes", "on", "y":
		return true
	case "", "false", "no", "off", "n":
	default:
		r.fail("line %d: %s is %q, want true or false", n.Line, name, excerpt(value, 40))
	}
	return false
}

// list returns a list of words, which may also be written as one string with commas. Blank words
// are left out.
func (r *metadataReader) list(name string, n *yaml.Node) []string {
	if n == nil || isNull(n) {
		return nil
	}
	var words []string
	switch n.Kind {
	case yaml.ScalarNode:
		words = strings.Split(n.Value, ",")
	case yaml.SequenceNode:
		for _, item := range n.Content {
			words = append(words, r.text(name, item))
		}
	default:
		r.fail("line %d: %s is not a list", n.Line, name)
	}
	if len(words) > maxHeadItems {
		r.fail("line %d: %s has %d words, over the limit of %d", n.Line, name, len(words), maxHeadItems)
		return nil
	}
	var list []string
	for _, word := range words {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}
