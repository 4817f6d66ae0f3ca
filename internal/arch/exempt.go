package arch

import (
	"maps"
	"slices"
	"strings"
)

// exempt takes out the violations that the house excepts, and records the exceptions that are not
// needed.
func (c *checker) exempt() {
	needed := map[string]bool{}
	c.found = slices.DeleteFunc(c.found, func(v Violation) bool {
		file, _, _ := strings.Cut(v.Pos, ":")
		excepted := false
		for _, entry := range c.house.Exempt[v.Rule] {
			if within(file, entry) {
				excepted = true
				needed[v.Rule+":"+entry] = true
			}
		}
		return excepted
	})
	for _, rule := range slices.Sorted(maps.Keys(c.house.Exempt)) {
		for _, entry := range c.house.Exempt[rule] {
			if !needed[rule+":"+entry] {
				c.in("Exempt", rule, "%s needs no exception", entry)
			}
		}
	}
}
