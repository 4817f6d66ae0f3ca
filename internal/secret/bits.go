package secret

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// triples is a set of three letters each, in any letter case. It may hold others, too.
type triples [1 << 10]uint32

func tripleOf(a, b, c byte) uint16 {
	return uint16(a&31)<<10 | uint16(b&31)<<5 | uint16(c&31)
}

func (t *triples) add(p uint16) { t[p>>5] |= 1 << (p & 31) }

func (t *triples) has(p uint16) bool { return t[p>>5]&(1<<(p&31)) != 0 }

// firstOf returns the triple that a word begins with.
func firstOf(w string) uint16 {
	if len(w) < 3 {
		return tripleOf(w[0], w[len(w)-1], 0)
	}
	return tripleOf(w[0], w[1], w[2])
}

// familyLists has the families in lists of those that begin with the same two bytes, the longest
// beginning first. familyIndex has the index of the list of two bytes, which is 0 for none.
var familyLists, familyIndex = func() (lists [][]*Family, index [128][128]uint16) {
	lists = append(lists, nil)
	for i := range families {
		f := &families[i]
		at := &index[f.Begin[0]][f.Begin[1]]
		if *at == 0 {
			*at = uint16(len(lists)) //nolint:gosec // there are at most 16,384
			lists = append(lists, nil)
		}
		lists[*at] = append(lists[*at], f)
	}
	for _, list := range lists {
		slices.SortStableFunc(list, func(a, b *Family) int { return len(b.Begin) - len(a.Begin) })
	}
	return lists, index
}()

// familiesOf returns the families that may begin with two bytes, the first of which is ASCII.
func familiesOf(first, second byte) []*Family {
	if second >= utf8.RuneSelf {
		return nil
	}
	return familyLists[familyIndex[first][second]]
}

// beginsFamily reports whether a token may begin at a position with a word that ends at another.
func beginsFamily(buf string, at, end int) bool {
	second := byte(0)
	if at+1 < len(buf) {
		second = buf[at+1]
	}
	if at+2 < len(buf) && !familyTriples.has(tripleOf(buf[at], second, buf[at+2])) {
		return false
	}
	for _, f := range familiesOf(buf[at], second) {
		n := min(len(f.Begin), len(buf)-at)
		if buf[at:at+n] == f.Begin[:n] && (n == len(f.Begin) || at+n == len(buf)) {
			return true
		}
	}
	w := buf[at:end] // see shapeEnd
	return w[0] == 'e' && strings.HasPrefix(w, "eyJ") || w == "FlyV1"
}

// familyTriples has what families begin with, and what shapeEnd knows.
var familyTriples = func() *triples {
	t := new(triples)
	for _, f := range families {
		if len(f.Begin) > 2 {
			t.add(tripleOf(f.Begin[0], f.Begin[1], f.Begin[2]))
			continue
		}
		for third := range byte(32) {
			t.add(tripleOf(f.Begin[0], f.Begin[1], third))
		}
	}
	t.add(tripleOf('e', 'y', 'J'))
	t.add(tripleOf('F', 'l', 'y'))
	return t
}()

// endTriples has what the names in nameEnds and the names of headers end with.
var endTriples = func() *triples {
	t := new(triples)
	add := func(end string) {
		if n := len(end); n >= 3 {
			t.add(tripleOf(end[n-3], end[n-2], end[n-1]))
			return
		}
		for before := range byte(32) {
			t.add(tripleOf(before, end[len(end)-2], end[len(end)-1]))
		}
	}
	for _, ends := range nameEnds {
		for _, e := range ends {
			add(e.end)
		}
	}
	add("cookie")
	add("authorization")
	return t
}()

// keywordTriples has what the words begin with that visitKeyword knows.
var keywordTriples = func() *triples {
	t := new(triples)
	for w := range commands {
		t.add(firstOf(w))
	}
	for w := range stdinWords {
		t.add(firstOf(w))
	}
	for _, w := range []string{
		"bearer", "basic", "machine", "login", "echo", "printf",
		"identified", "pass", "mc", "net", "auth", "wandb", "sudo",
	} {
		t.add(firstOf(w))
	}
	return t
}()

// hostTriples has what the hosts of addresses begin with.
var hostTriples = func() *triples {
	t := new(triples)
	for w := range hostsOf {
		t.add(firstOf(w))
	}
	return t
}()
