package jsonschema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// keywords read the members of one schema.
type keywords struct {
	c *compiler
	n *node
	v map[string]any
}

// bad refuses the value of a keyword.
func (k keywords) bad(name, want string) {
	k.c.fail(k.n.at, "%s is %s: want %s", name, shown(k.v[name]), want)
}

// references reads $ref, and refuses what refers in another way or cannot be checked.
func (k keywords) references() (found bool) {
	for _, name := range [...]string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := k.v[name]; ok {
			k.c.fail(k.n.at, "%s is not known here: use $ref", name)
		}
	}
	for _, name := range [...]string{"unevaluatedItems", "unevaluatedProperties"} {
		if v, ok := k.v[name]; ok && v != true {
			k.c.fail(k.n.at, "%s is not known here: use additionalProperties and items", name)
		}
	}
	v, found := k.v["$ref"]
	if !found {
		return false
	}
	to, ok := v.(string)
	if !ok {
		k.bad("$ref", "a string")
	}
	k.c.refs = append(k.c.refs, reference{k.n, to})
	return true
}

// values reads what is asked of single values.
func (k keywords) values() {
	n := k.n
	switch v := k.v["type"].(type) {
	case nil:
		if _, ok := k.v["type"]; ok {
			k.bad("type", "the name of a type, or a list of them")
		}
	case string:
		n.types = []string{v}
	default:
		if n.types = k.strings("type"); len(n.types) == 0 {
			k.bad("type", "the name of a type, or a list of them")
		}
	}
	for _, name := range n.types {
		if !slices.Contains(typeNames, name) {
			k.c.fail(n.at, "%s is not a type: want one of %s", text.QuoteWhole(name), quoted(typeNames))
		}
	}
	if v, ok := k.v["enum"]; ok {
		if n.enum, ok = v.([]any); !ok || len(n.enum) == 0 {
			k.bad("enum", "a list with values")
		}
	}
	if v, ok := k.v["const"]; ok {
		same := map[string]bool{canonical(v): true}
		n.all = append(n.all, &node{at: n.at, enum: []any{v}, equal: same})
	}
	if n.enum != nil {
		n.equal = make(map[string]bool, len(n.enum))
		for _, v := range n.enum {
			n.equal[canonical(v)] = true
		}
	}
	n.min, n.max = k.number("minimum"), k.number("maximum")
	n.above, n.below = k.number("exclusiveMinimum"), k.number("exclusiveMaximum")
	if n.multiple = k.number("multipleOf"); n.multiple != nil && n.multiple.Sign() <= 0 {
		k.bad("multipleOf", "a number above 0")
	}
	n.length = span{k.count("minLength"), k.count("maxLength")}
	if v, ok := k.v["pattern"]; ok {
		expr, isText := v.(string)
		if !isText {
			k.bad("pattern", "a string")
		}
		n.pattern = k.c.pattern(n.at, expr)
	}
	n.format, _ = k.v["format"].(string)
}

// objects reads what is asked of objects.
func (k keywords) objects() {
	n := k.n
	n.props = k.schemas("properties")
	n.names = sorted(n.props)
	for _, expr := range sorted(k.object("patternProperties")) {
		n.patterned = append(n.patterned, patterned{
			k.c.pattern(n.at, expr),
			k.c.node(under(n.at+"/patternProperties", expr), k.object("patternProperties")[expr]),
		})
	}
	n.other, n.naming = k.schema("additionalProperties"), k.schema("propertyNames")
	n.required = k.strings("required")
	n.members = span{k.count("minProperties"), k.count("maxProperties")}
	n.implies = k.schemas("dependentSchemas")
	n.needs = make(map[string][]string)
	for _, word := range [...]string{"dependentRequired", "dependencies"} {
		for name, v := range k.object(word) {
			list, isList := v.([]any)
			if !isList && word == "dependencies" {
				if n.implies == nil {
					n.implies = make(map[string]*node)
				}
				n.implies[name] = k.c.node(under(n.at+"/"+word, name), v)
				continue
			}
			in := keywords{k.c, n, map[string]any{word: list}}
			n.needs[name] = append(n.needs[name], in.strings(word)...)
		}
	}
}

// lists reads what is asked of lists.
func (k keywords) lists() {
	n := k.n
	n.first = k.list("prefixItems")
	if _, tuple := k.v["items"].([]any); tuple { // up to draft 2019-09
		n.first, n.items = k.list("items"), k.schema("additionalItems")
	} else {
		n.items = k.schema("items")
	}
	n.count = span{k.count("minItems"), k.count("maxItems")}
	n.contains = k.schema("contains")
	n.matching = span{k.count("minContains"), k.count("maxContains")}
	if v, ok := k.v["uniqueItems"]; ok {
		if n.unique, ok = v.(bool); !ok {
			k.bad("uniqueItems", "true or false")
		}
	}
}

// logic reads what combines schemas.
func (k keywords) logic() {
	n := k.n
	n.all = append(n.all, k.list("allOf")...)
	n.any, n.one = k.list("anyOf"), k.list("oneOf")
	n.not, n.when = k.schema("not"), k.schema("if")
	n.whenTrue, n.whenFalse = k.schema("then"), k.schema("else")
}

func (k keywords) schema(name string) *node {
	v, ok := k.v[name]
	if !ok {
		return nil
	}
	return k.c.node(under(k.n.at, name), v)
}

func (k keywords) list(name string) (nodes []*node) {
	v, ok := k.v[name]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		k.bad(name, "a list with schemas")
	}
	for i, v := range list {
		nodes = append(nodes, k.c.node(under(k.n.at, name)+"/"+itoa(i), v))
	}
	return nodes
}

func (k keywords) schemas(name string) map[string]*node {
	in := k.object(name)
	if in == nil {
		return nil
	}
	nodes := make(map[string]*node, len(in))
	for _, member := range sorted(in) {
		nodes[member] = k.c.node(under(under(k.n.at, name), member), in[member])
	}
	return nodes
}

func (k keywords) object(name string) map[string]any {
	v, ok := k.v[name]
	if !ok {
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		k.bad(name, "an object")
	}
	return object
}

func (k keywords) strings(name string) (list []string) {
	v, ok := k.v[name]
	if !ok {
		return nil
	}
	values, ok := v.([]any)
	for _, v := range values {
		s, isText := v.(string)
		ok = ok && isText
		list = append(list, s)
	}
	if !ok {
		k.bad(name, "a list of strings")
	}
	return list
}

func (k keywords) number(name string) *big.Rat {
	v, ok := k.v[name]
	if !ok {
		return nil
	}
	n, ok := v.(json.Number)
	r, inRange := rational(n)
	if !ok || !inRange {
		k.bad(name, "a number")
		return nil
	}
	return r
}

func (k keywords) count(name string) *int {
	r := k.number(name)
	switch {
	case r == nil:
		return nil
	case !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64():
		k.bad(name, "a count")
		return nil
	}
	n := int(r.Num().Int64())
	return &n
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
