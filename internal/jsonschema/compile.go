package jsonschema

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// The bounds of a schema that a caller wrote. They keep the time of [Compile] and of
// [Schema.Validate] small for every input.
const (
	maxSchema  = 1 << 20 // bytes
	maxNodes   = 10_000  // schemas in a schema
	maxLevels  = 200     // levels of JSON in a schema
	maxPattern = 20_000  // instructions of all patterns together
)

// A Schema is a JSON Schema that values can be checked against. It is safe for concurrent use.
type Schema struct {
	root  *node
	typed bool // made from a Go type
}

// A SchemaError is what is wrong with a schema.
type SchemaError struct {
	At     string // a JSON pointer, such as "#/properties/city"
	Reason string
}

func (e *SchemaError) Error() string { return "the schema at " + e.At + ": " + e.Reason }

// A node is one schema. A nil pointer, slice or map asks for nothing.
type node struct {
	at    string
	never bool // the schema false
	ref   *node
	types []string
	enum  []any
	equal map[string]bool // the canonical forms of enum

	min, max, above, below, multiple *big.Rat
	length, count, members, matching span
	pattern                          *pattern
	format                           string

	names     []string // of properties, sorted
	props     map[string]*node
	patterned []patterned
	other     *node // additionalProperties
	naming    *node // propertyNames
	required  []string
	needs     map[string][]string // dependentRequired
	implies   map[string]*node    // dependentSchemas

	first    []*node // prefixItems
	items    *node
	contains *node
	unique   bool

	all, any, one                  []*node
	not, when, whenTrue, whenFalse *node
}

// A span is how many of something there are to be.
type span struct{ least, most *int }

type patterned struct {
	pattern *pattern
	node    *node
}

// Compile reads a schema that a caller wrote, of the drafts from 6 to 2020-12: every keyword that
// checks something, with references into the same schema. The error is a *SchemaError for what is
// not a schema, for what Compile does not know how to check, such as a reference to another
// document, and for a schema that would take long. Keywords that only describe are passed over,
// format among them.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > maxSchema {
		return nil, &SchemaError{"#", fmt.Sprintf("it has %d bytes; the limit is %d", len(raw), maxSchema)}
	}
	doc, err := decode(raw, maxLevels)
	if err != nil {
		return nil, &SchemaError{"#", err.Error()}
	}
	c := &compiler{doc: doc, nodes: make(map[string]*node), patterns: maxPattern}
	draft, _ := member(doc, "$schema")
	name, _ := draft.(string)
	c.refAlone = strings.Contains(name, "draft-0")
	root := c.node("#", doc)
	for c.err == nil && len(c.refs) > 0 {
		from := c.refs[0]
		c.refs = c.refs[1:]
		from.node.ref = c.target(from)
	}
	if c.err == nil {
		c.findLoop()
	}
	if c.err != nil {
		return nil, c.err
	}
	return &Schema{root: root}, nil
}

// AcceptsObject reports whether the schema lets values be objects, by its type.
func (s *Schema) AcceptsObject() bool {
	n := s.root.target()
	return !n.never && (n.types == nil || slices.Contains(n.types, "object"))
}

// Opens returns the characters that objects and lists begin with, as far as the schema lets values
// be these.
func (s *Schema) Opens() (opening string) {
	n := s.root.target()
	if n.types == nil || slices.Contains(n.types, "object") {
		opening += "{"
	}
	if n.types == nil || slices.Contains(n.types, "array") {
		opening += "["
	}
	return opening
}

// A compiler makes nodes of a document. After its first error it does nothing more.
type compiler struct {
	doc      any
	nodes    map[string]*node // by JSON pointer
	refs     []reference
	patterns int  // instructions that are left
	refAlone bool // up to draft 7, what stands beside a $ref counts for nothing
	err      *SchemaError
}

type reference struct {
	node *node
	to   string
}

func (c *compiler) fail(at, format string, args ...any) {
	if c.err == nil {
		c.err = &SchemaError{at, fmt.Sprintf(format, args...)}
	}
}

// node returns the schema at a place.
func (c *compiler) node(at string, v any) *node {
	if n := c.nodes[at]; n != nil {
		return n
	}
	n := &node{at: at}
	if c.nodes[at] = n; len(c.nodes) > maxNodes {
		c.fail("#", "it holds more than %d schemas", maxNodes)
	}
	if c.err != nil {
		return n
	}
	switch v := v.(type) {
	case bool:
		n.never = !v
	case map[string]any:
		k := keywords{c, n, v}
		if k.references() && c.refAlone {
			return n
		}
		k.values()
		k.objects()
		k.lists()
		k.logic()
	default:
		c.fail(at, "%s is not a schema: want an object", kindOf(v))
	}
	return n
}

// target returns the schema that a reference is to.
func (c *compiler) target(r reference) *node {
	v := c.doc
	if r.to != "#" {
		path, ok := strings.CutPrefix(r.to, "#/")
		if !ok {
			c.fail(r.node.at, "$ref %s: want a place in the same schema, such as \"#/$defs/name\"",
				text.QuoteWhole(r.to))
			return nil
		}
		for part := range strings.SplitSeq(path, "/") {
			if v, ok = member(v, unescape(part)); !ok {
				c.fail(r.node.at, "$ref %s leads to nothing", text.QuoteWhole(r.to))
				return nil
			}
		}
	}
	return c.node(r.to, v)
}

// member returns what stands in an object or list under a name.
func member(v any, name string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		x, ok := v[name]
		return x, ok
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

var (
	unescaper = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%24", "$", "%20", " ")
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
)

func unescape(part string) string { return unescaper.Replace(part) }

func under(at, name string) string { return at + "/" + escaper.Replace(name) }

// inPlace returns the schemas that n applies to the same value.
func (n *node) inPlace() []*node {
	list := slices.Concat(n.all, n.any, n.one)
	list = append(list, n.ref, n.not, n.when, n.whenTrue, n.whenFalse)
	for _, name := range sorted(n.implies) {
		list = append(list, n.implies[name])
	}
	return slices.DeleteFunc(list, func(x *node) bool { return x == nil })
}

// findLoop refuses a schema that applies itself to the same value, so that no check would end.
func (c *compiler) findLoop() {
	const open, done = 1, 2
	state := make(map[*node]int, len(c.nodes))
	var visit func(n *node)
	visit = func(n *node) {
		state[n] = open
		for _, next := range n.inPlace() {
			switch state[next] {
			case open:
				c.fail(n.at, "it refers to itself without going into the value")
			case done:
			default:
				visit(next)
			}
		}
		state[n] = done
	}
	for _, at := range sorted(c.nodes) {
		if n := c.nodes[at]; state[n] == 0 {
			visit(n)
		}
	}
}
