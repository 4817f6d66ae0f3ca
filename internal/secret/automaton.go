package secret

import (
	"math"
	"slices"
)

// An automaton follows the values of a tree from all places of a text at once. A state is the
// longest beginning of a value that the text before a place ends with, and stands for each shorter
// one that it ends with as well: those are the states that fail leads to.
//
//	value   a   a   a   a   b
//	state   1 - 2 - 3 - 4 - 5        text   a a a a a c
//	fail    0   1   2   3   0        state  1 2 3 4 4 0
//
// It takes time linear in the tree to make one, and it has about 40 bytes for each of the tree.
type automaton struct {
	nodes []node
	forks map[int32][]int32 // of a node: the nodes that follow it, but for the next one
}

// A node is a state of an automaton. The first is the root, before which nothing was met.
type node struct {
	label   byte // that leads to it
	chained bool // the next node follows it
	forked  bool // others do

	depth int32 // bytes that were met
	fail  int32 // the longest state that it ends with and that goes on as it does not
	ended int32 // bytes of the longest value that ends with it; 0: none does
	rest  int32 // bytes that a value has at least behind it, or behind what it ends with

	from, until int32 // it ends with each node whose from and until are around its from
}

// mostNodes is how many nodes an automaton has at most. What has no room ends where it would
// begin, so that a value is met there too early.
const mostNodes = 1 << 18

// newAutomaton returns the automaton of a tree.
func newAutomaton(t *tree) *automaton {
	a := &automaton{
		nodes: make([]node, 1, min(t.size, mostNodes)+1), forks: make(map[int32][]int32),
	}
	a.lay(t, 0)
	parents := make([]int32, len(a.nodes))
	order := make([]int32, 1, len(a.nodes)) // no node before those that are shorter
	for i := 0; i < len(order); i++ {
		a.each(order[i], func(next int32) bool {
			parents[next] = order[i]
			order = append(order, next)
			return true
		})
	}
	fails := make([]int32, len(a.nodes))
	for _, at := range order[1:] {
		if parents[at] > 0 {
			fails[at] = a.next(fails[parents[at]], a.nodes[at].label)
		}
		a.link(at, fails[at])
	}
	a.measure(order, parents, fails)
	return a
}

// lay gives the bytes of a tree their nodes, behind a node.
func (a *automaton) lay(t *tree, parent int32) {
	at := parent
	for i := range len(t.text) {
		next := int32(len(a.nodes)) //nolint:gosec // there are at most mostNodes
		if next == mostNodes {
			a.nodes[at].ended = a.nodes[at].depth
			return
		}
		a.nodes = append(a.nodes, node{label: t.text[i], depth: a.nodes[at].depth + 1})
		if next == at+1 {
			a.nodes[at].chained = true
		} else {
			a.nodes[at].forked = true
			a.forks[at] = append(a.forks[at], next)
		}
		at = next
	}
	if t.ends {
		a.nodes[at].ended = a.nodes[at].depth
	}
	for _, next := range t.next {
		a.lay(next, at)
	}
}

// each calls yield with each node that follows a node, until it returns false.
func (a *automaton) each(at int32, yield func(next int32) bool) {
	if a.nodes[at].chained && !yield(at+1) || !a.nodes[at].forked {
		return
	}
	for _, next := range a.forks[at] {
		if !yield(next) {
			return
		}
	}
}

// link sets where a node fails to, given the longest state that it ends with. What goes on with no
// other bytes than the node itself is passed: without that a text of one letter would be followed
// through all of a value of that letter at each byte that is another one.
func (a *automaton) link(at, fail int32) {
	goesOnAlike := func(fail int32) bool {
		is := true
		a.each(fail, func(next int32) bool {
			is = a.child(at, a.nodes[next].label) > 0
			return is
		})
		return is
	}
	if a.nodes[at].ended == 0 {
		a.nodes[at].ended = a.nodes[fail].ended
	}
	for fail > 0 && goesOnAlike(fail) {
		fail = a.nodes[fail].fail
	}
	a.nodes[at].fail = fail
}

// measure sets rest, from and until.
func (a *automaton) measure(order, parents, fails []int32) {
	sizes := make([]int32, len(a.nodes))
	for i := range a.nodes {
		a.nodes[i].rest = math.MaxInt32
	}
	for _, at := range slices.Backward(order[1:]) {
		n, above := &a.nodes[at], &a.nodes[parents[at]]
		if n.ended == n.depth {
			above.rest = 1
		} else if n.rest < math.MaxInt32 {
			above.rest = min(above.rest, n.rest+1)
		}
		sizes[at]++
		sizes[fails[at]] += sizes[at]
	}
	sizes[0]++
	room := make([]int32, len(a.nodes)) // where the next node goes that ends with a node
	a.nodes[0].until, room[0] = sizes[0], 1
	for _, at := range order[1:] {
		n, fail := &a.nodes[at], fails[at]
		n.from = room[fail]
		n.until = n.from + sizes[at]
		room[fail], room[at] = n.until, n.from+1
		if fail > 0 {
			n.rest = min(n.rest, a.nodes[fail].rest)
		}
	}
}

// child returns the node that follows a node with a byte, or 0.
func (a *automaton) child(at int32, c byte) int32 {
	n := &a.nodes[at]
	if n.chained && a.nodes[at+1].label == c {
		return at + 1
	}
	if n.forked {
		for _, next := range a.forks[at] {
			if a.nodes[next].label == c {
				return next
			}
		}
	}
	return 0
}

// next returns the state behind a byte.
func (a *automaton) next(at int32, c byte) int32 {
	for {
		if next := a.child(at, c); next > 0 || at == 0 {
			return next
		}
		at = a.nodes[at].fail
	}
}

// endsWith reports whether a state ends with another one, or is that one.
func (a *automaton) endsWith(at, with int32) bool {
	n := &a.nodes[with]
	return n.from <= a.nodes[at].from && a.nodes[at].from < n.until
}
