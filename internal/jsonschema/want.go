package jsonschema

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// target returns the schema that n refers to, or n.
func (n *node) target() *node {
	for n.ref != nil && n.types == nil && n.enum == nil {
		n = n.ref // without a loop: findLoop has refused those
	}
	return n
}

// want returns in words what a schema asks for.
func (n *node) want() string {
	if n == nil {
		return "a value"
	}
	n = n.target()
	if n.enum != nil {
		values := make([]string, 0, len(n.enum))
		for _, v := range n.enum[:min(len(n.enum), maxListed)] {
			values = append(values, shown(v))
		}
		return oneOf(values, len(n.enum))
	}
	if len(n.types) == 0 {
		for _, x := range n.all {
			if x.enum != nil {
				return x.want()
			}
		}
		if words := n.limits(); words != "" {
			return "a number" + words
		}
		return "a value"
	}
	words := make([]string, len(n.types))
	for i, t := range n.types {
		switch t {
		case "array", "integer", "object":
			words[i] = "an " + t
		case "null":
			words[i] = t
		default:
			words[i] = "a " + t
		}
		if t == "integer" || t == "number" {
			words[i] += n.limits()
		}
	}
	return strings.Join(words, " or ")
}

// limits returns in words between which bounds a number is to be, with a space before them.
func (n *node) limits() string {
	if n.min != nil && n.max != nil && n.above == nil && n.below == nil {
		return fmt.Sprintf(" from %s to %s", decimal(n.min), decimal(n.max))
	}
	var words []string
	for _, x := range []struct {
		word  string
		limit *big.Rat
	}{{"of at least", n.min}, {"of at most", n.max}, {"above", n.above}, {"below", n.below}} {
		if x.limit != nil {
			words = append(words, x.word+" "+decimal(x.limit))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " and ")
}

// decimal returns a number as people write it.
func decimal(r *big.Rat) string {
	if f, exact := r.Float64(); exact {
		return strings.TrimSuffix(fmt.Sprintf("%g", f), ".0")
	}
	if n, exact := r.FloatPrec(); exact && n <= maxDigits {
		return text.Cut(r.FloatString(n), maxDigits)
	}
	return text.Cut(r.RatString(), maxDigits)
}

// quoted returns names in quotation marks.
func quoted(names []string) string {
	list := make([]string, 0, min(len(names), maxListed))
	for _, name := range names[:min(len(names), maxListed)] {
		list = append(list, text.QuoteWhole(name))
	}
	if more := len(names) - len(list); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), more)
	}
	return strings.Join(list, ", ")
}

// oneOf returns values as what is wanted, of which there are so many.
func oneOf(values []string, all int) string {
	if all == 1 {
		return values[0]
	}
	words := "one of " + strings.Join(values, ", ")
	if more := all - len(values); more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}
