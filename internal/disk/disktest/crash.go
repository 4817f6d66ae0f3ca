package disktest

import (
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is how many bytes a disk writes at once or not at all.
const sector = 512

// Crash returns the Disk as it could be after the power was lost now. Everything that was synced is there. The rest is in pieces: each
// sector of a write, the length that it gave the file, a truncation, a change of names. keep says of each piece, by its number, whether
// it has reached the disk; a file system may bring them there in any order, so any choice is allowed. Files that are open stay with d.
func (d *Disk) Crash(keep func(piece int) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &crash{keep: keep, made: make(map[*node]*node)}
	return &Disk{root: c.node(d.root)}
}

// ErrOff is what every operation fails with once the power is off.
var ErrOff = errors.New("disktest: the power is off")

// PowerOff cuts the power between two operations: the program that uses d gets nothing done any more, and what it has said by then is what
// must be on the Disk that is returned, as after [Disk.Crash].
func (d *Disk) PowerOff(keep func(piece int) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	c := &crash{keep: keep, made: make(map[*node]*node)}
	return &Disk{root: c.node(d.root)}
}

// Pieces returns how many pieces a Crash would ask about.
func (d *Disk) Pieces() int {
	n := 0
	d.Crash(func(int) bool {
		n++
		return false
	})
	return n
}

// Losses yields choices for [Disk.Crash]: all of them if there are at most max, else nothing, everything, each prefix, each single
// piece lost or kept, and then others at random, max in all.
func (d *Disk) Losses(rng *rand.Rand, limit int) iter.Seq[func(piece int) bool] {
	n := d.Pieces()
	return func(yield func(func(int) bool) bool) {
		if n < 20 && 1<<n <= limit {
			for set := range 1 << n {
				if !yield(func(i int) bool { return set>>i&1 == 1 }) {
					return
				}
			}
			return
		}
		for c := range limit {
			if !yield(choice(rng, n, c)) {
				return
			}
		}
	}
}

func choice(rng *rand.Rand, n, c int) func(int) bool {
	switch {
	case c < 2*n && rng.IntN(2) == 0 || c < 2:
		prefix := rng.IntN(n + 1)
		if c < 2 {
			prefix = c * n
		}
		return func(i int) bool { return i < prefix }
	case c < 4*n && rng.IntN(2) == 0:
		one, kept := rng.IntN(n), rng.IntN(2) == 0
		return func(i int) bool { return (i == one) == kept }
	}
	kept := make([]bool, n)
	for i := range kept {
		kept[i] = rng.IntN(2) == 0
	}
	return func(i int) bool { return i < n && kept[i] }
}

type crash struct {
	keep func(int) bool
	next int
	made map[*node]*node // a file may have two names, if not both of a rename have reached the disk
}

func (c *crash) kept() bool {
	c.next++
	return c.keep(c.next - 1)
}

func (c *crash) node(n *node) *node {
	if made := c.made[n]; made != nil {
		return made
	}
	if !n.dir {
		made := &node{durable: slices.Clone(n.durable)}
		c.made[n] = made
		for _, w := range n.writes {
			c.write(made, w)
		}
		made.data = slices.Clone(made.durable)
		return made
	}
	made := newDir()
	c.made[n] = made
	names := maps.Clone(n.durableNames)
	for _, change := range n.changes {
		if c.kept() {
			apply(names, change)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		made.durableNames[name] = c.node(names[name])
	}
	made.names = maps.Clone(made.durableNames)
	return made
}

// write has the parts of w reach the disk that are kept.
func (c *crash) write(n *node, w write) {
	if w.cut {
		if c.kept() {
			n.durable = w.apply(n.durable)
		}
		return
	}
	if end := w.off + int64(len(w.data)); end > int64(len(n.durable)) && c.kept() {
		n.durable = write{off: end}.apply(n.durable)
	}
	for from := 0; from < len(w.data); {
		to := min(from+sector-int(w.off+int64(from))%sector, len(w.data))
		if c.kept() {
			n.durable = write{off: w.off + int64(from), data: w.data[from:to]}.apply(n.durable)
		}
		from = to
	}
}
