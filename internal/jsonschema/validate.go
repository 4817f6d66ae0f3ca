package jsonschema

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// The bounds of one check.
const (
	maxSteps  = 1_000_000 // schemas that are looked at, items that are compared
	maxDepth  = 5_000     // calls within calls
	maxValue  = 500       // levels of JSON in a value
	maxFaults = 4         // faults that are told
	maxListed = 20        // names or values that a fault lists
)

// A ValueError is what is wrong with a value: sentences that a model can act on, the first few of
// them. Each names the member and what is wanted.
type ValueError struct{ Faults []string }

func (e *ValueError) Error() string { return strings.Join(e.Faults, "; ") }

// Validate checks a JSON text. The error is a *ValueError.
//
// A check takes bounded time: a value that would take longer than a million steps is refused. Of a
// schema that was made of a Go type, a member that is not required may be null, which encoding/json
// takes as absent; an integer is written without fraction and exponent, and times and bytes must
// have their form.
func (s *Schema) Validate(data []byte) error {
	v, err := decode(data, maxValue)
	if err != nil {
		return &ValueError{[]string{err.Error()}}
	}
	c := checker{typed: s.typed, steps: maxSteps}
	c.check(s.root, v, place{})
	switch {
	case c.tooMuch:
		return &ValueError{[]string{"it is too large or too deep to be checked against its schema"}}
	case len(c.faults) > 0:
		return &ValueError{c.faults}
	}
	return nil
}

// A place is where in the value a check is.
type place struct {
	above *place
	name  string // of a member
	index int    // of an item, if name is empty
}

func (p *place) String() string {
	if p == nil || p.above == nil {
		return ""
	}
	before := p.above.String()
	switch {
	case p.name == "":
		return fmt.Sprintf("%s[%d]", before, p.index)
	case !isPlainName(p.name):
		return before + "[" + text.QuoteWhole(p.name) + "]"
	case before == "":
		return p.name
	}
	return before + "." + p.name
}

func isPlainName(name string) bool {
	return len(name) <= text.MaxQuoted && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r|' ' < 'a' || r|' ' > 'z')
	})
}

type checker struct {
	typed   bool
	steps   int
	depth   int
	tooMuch bool
	quiet   bool // faults are counted, and their sentences not made
	found   int
	faults  []string
	names   map[uintptr][]string // of the objects of the value, sorted
}

// enough reports whether nothing that is found from here on would matter.
func (c *checker) enough() bool {
	return c.tooMuch || c.found >= maxFaults || c.quiet && c.found > 0
}

// spend takes steps, and returns false if there are not as many left.
func (c *checker) spend(n int) bool {
	if c.steps -= n; c.steps < 0 {
		c.tooMuch = true
	}
	return !c.tooMuch
}

// fault notes what is wrong at a place.
func (c *checker) fault(at *place, format string, args ...any) {
	if c.found++; c.quiet || c.found > maxFaults {
		return
	}
	subject := at.String()
	if subject == "" {
		subject = "the value"
	}
	c.faults = append(c.faults, subject+" "+fmt.Sprintf(format, args...))
}

// passes reports whether a value fits a schema, and notes nothing.
func (c *checker) passes(n *node, v any, at *place) bool {
	quiet, found := c.quiet, c.found
	c.quiet, c.found = true, 0
	c.check(n, v, *at)
	ok := c.found == 0 && !c.tooMuch
	c.quiet, c.found = quiet, found
	return ok
}

// check notes what of a value does not fit a schema.
func (c *checker) check(n *node, v any, at place) {
	if c.depth++; c.depth > maxDepth {
		c.tooMuch = true
	}
	defer func() { c.depth-- }()
	if !c.spend(1) || c.enough() {
		return
	}
	if n.never {
		c.fault(&at, "is not allowed here")
		return
	}
	if n.ref != nil {
		c.check(n.ref, v, at)
	}
	if n.types != nil && !n.takes(v) {
		c.fault(&at, "is %s: want %s", kindOf(v), n.want())
		return
	}
	if n.enum != nil {
		form := canonical(v)
		if c.spend(len(form) / 16); !n.equal[form] {
			c.fault(&at, "is %s: want %s", shown(v), n.want())
			return
		}
	}
	switch v := v.(type) {
	case json.Number:
		c.number(n, v, &at)
	case string:
		c.text(n, v, &at)
	case []any:
		c.list(n, v, &at)
	case map[string]any:
		c.object(n, v, &at)
	}
	c.logic(n, v, &at)
}

// takes reports whether a value is of one of the types.
func (n *node) takes(v any) bool {
	return slices.ContainsFunc(n.types, func(t string) bool { return isType(v, t) })
}

func isType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case json.Number:
		if name == "number" || name != "integer" || isPlainInteger(v) {
			return name == "number" || name == "integer"
		}
		r, ok := rational(v)
		return ok && r.IsInt()
	case string:
		return name == "string"
	case []any:
		return name == "array"
	}
	return name == "object"
}

func (c *checker) number(n *node, v json.Number, at *place) {
	if c.typed && slices.Contains(n.types, "integer") && !isPlainInteger(v) {
		c.fault(at, "is %s: want an integer without a fraction or exponent", shown(v))
		return
	}
	if n.min == nil && n.max == nil && n.above == nil && n.below == nil && n.multiple == nil {
		return
	}
	r, ok := rational(v)
	if !ok || !c.spend(1+len(v)/16) {
		c.fault(at, "is a number with too many digits: want %s", n.want())
		return
	}
	switch {
	case n.min != nil && r.Cmp(n.min) < 0, n.max != nil && r.Cmp(n.max) > 0,
		n.above != nil && r.Cmp(n.above) <= 0, n.below != nil && r.Cmp(n.below) >= 0:
		c.fault(at, "is %s: want %s", shown(v), n.want())
	case n.multiple != nil && !r.Quo(r, n.multiple).IsInt():
		c.fault(at, "is %s: want a multiple of %s", shown(v), decimal(n.multiple))
	}
}

func (c *checker) text(n *node, v string, at *place) {
	if n.length != (span{}) {
		c.spend(len(v) / 16)
		c.span(n.length, utf8.RuneCountInString(v), "character", "characters", at)
	}
	size := 1 // the patterns of types are small
	if n.pattern != nil && !c.typed {
		size = n.pattern.size
	}
	if p := n.pattern; p != nil && c.spend(size*len(v)/16) && !p.expr.MatchString(v) {
		c.fault(at, "is %s: want a string that matches %s", shown(v), text.QuoteWhole(p.text))
	}
	if !c.typed {
		return
	}
	switch n.format {
	case "date-time":
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			c.fault(at, "is %s: want a date and time such as \"2006-01-02T15:04:05Z\"", shown(v))
		}
	case "byte":
		if _, err := base64.StdEncoding.DecodeString(v); err != nil {
			c.fault(at, "is %s: want base64", shown(v))
		}
	}
}

// span checks how many of something there are.
func (c *checker) span(s span, n int, one, many string, at *place) {
	switch {
	case s.least != nil && n < *s.least:
		c.fault(at, "has %s: want at least %d", text.Count(n, one, many), *s.least)
	case s.most != nil && n > *s.most:
		c.fault(at, "has %s: want at most %d", text.Count(n, one, many), *s.most)
	}
}

func (c *checker) list(n *node, v []any, at *place) {
	if !c.spend(len(v)) {
		return
	}
	c.span(n.count, len(v), "item", "items", at)
	fits := 0
	seen := make(map[string]bool)
	for i, item := range v {
		if c.enough() {
			return
		}
		here := place{above: at, index: i}
		switch {
		case i < len(n.first):
			c.check(n.first[i], item, here)
		case n.items != nil:
			c.check(n.items, item, here)
		}
		if n.contains != nil && c.passes(n.contains, item, &here) {
			fits++
		}
		if n.unique {
			form := canonical(item)
			if c.spend(1 + len(form)/16); seen[form] {
				c.fault(&here, "is the same as an item before it: want each item once")
			}
			seen[form] = true
		}
	}
	if n.contains == nil {
		return
	}
	least, most := 1, len(v)
	if n.matching.least != nil {
		least = *n.matching.least
	}
	if n.matching.most != nil {
		most = *n.matching.most
	}
	if fits < least || fits > most {
		c.fault(at, "has %s that are %s: want from %d to %d", text.Count(fits, "item", "items"),
			n.contains.want(), least, max(least, most))
	}
}

func (c *checker) object(n *node, v map[string]any, at *place) {
	if !c.spend(len(v)) {
		return
	}
	c.span(n.members, len(v), "member", "members", at)
	for _, name := range n.required {
		if _, ok := v[name]; !ok && c.spend(1) {
			c.fault(&place{above: at, name: name}, "is missing: want %s", n.props[name].want())
		}
	}
	for _, name := range c.namesOf(v) {
		if c.enough() {
			return
		}
		c.member(n, v, name, at)
	}
	for _, name := range sorted(n.needs) {
		if _, ok := v[name]; !ok {
			continue
		}
		for _, other := range n.needs[name] {
			if _, ok := v[other]; !ok && c.spend(1) {
				c.fault(&place{above: at, name: other}, "is missing: %s asks for it", text.QuoteWhole(name))
			}
		}
	}
	for _, name := range sorted(n.implies) {
		if _, ok := v[name]; ok {
			c.check(n.implies[name], v, *at)
		}
	}
}

// namesOf returns the names of an object, sorted. Many schemas may look at one object.
func (c *checker) namesOf(v map[string]any) []string {
	at := reflect.ValueOf(v).Pointer()
	names, ok := c.names[at]
	if !ok {
		if c.names == nil {
			c.names = make(map[uintptr][]string)
		}
		names = sorted(v)
		c.names[at] = names
	}
	return names
}

// member checks one member of an object.
func (c *checker) member(n *node, v map[string]any, name string, at *place) {
	here := place{above: at, name: name}
	if n.naming != nil && !c.passes(n.naming, name, &here) {
		c.fault(&here, "is not a name that is allowed: want %s", n.naming.want())
	}
	own, known := n.props[name]
	if known && (v[name] != nil || !c.typed || slices.Contains(n.required, name)) {
		c.check(own, v[name], here)
	}
	for _, p := range n.patterned {
		if c.spend(1+p.pattern.size*len(name)/16) && p.pattern.expr.MatchString(name) {
			known = true
			c.check(p.node, v[name], here)
		}
	}
	switch {
	case known || n.other == nil:
	case n.other.never && len(n.names) == 0:
		c.fault(&here, "is not known: want an object without members")
	case n.other.never:
		c.fault(&here, "is not known: want one of %s", quoted(n.names))
	default:
		c.check(n.other, v[name], here)
	}
}

func (c *checker) logic(n *node, v any, at *place) {
	for _, x := range n.all {
		c.check(x, v, *at)
	}
	fitting := func(x *node) bool { return c.passes(x, v, at) }
	if n.any != nil && !slices.ContainsFunc(n.any, fitting) {
		c.alternatives(n.any, v, at)
	}
	if n.one != nil {
		fits := 0
		for _, x := range n.one {
			if c.passes(x, v, at) {
				fits++
			}
		}
		switch {
		case fits == 0:
			c.alternatives(n.one, v, at)
		case fits > 1:
			c.fault(at, "fits %d of the forms of which it is to have exactly one", fits)
		}
	}
	if n.not != nil && c.passes(n.not, v, at) {
		c.fault(at, "is what is not allowed here: %s", n.not.want())
	}
	if n.when == nil {
		return
	}
	then := n.whenFalse
	if c.passes(n.when, v, at) {
		then = n.whenTrue
	}
	if then != nil {
		c.check(then, v, *at)
	}
}

// alternatives notes that a value fits none of several schemas. If its type is that of one alone,
// the faults are those that it has there.
func (c *checker) alternatives(list []*node, v any, at *place) {
	if c.quiet {
		c.found++
		return
	}
	var near []*node
	wants := make([]string, 0, len(list))
	for _, x := range list {
		target := x.target()
		if target.types == nil || target.takes(v) {
			near = append(near, x)
		}
		if w := x.want(); !slices.Contains(wants, w) {
			wants = append(wants, w)
		}
	}
	if before := c.found; len(near) == 1 {
		if c.check(near[0], v, *at); c.found > before {
			return
		}
	}
	if len(wants) > maxListed {
		wants = append(wants[:maxListed], "another")
	}
	c.fault(at, "is %s that fits none of the forms: want %s", kindOf(v), strings.Join(wants, " or "))
}
