package disktest

import (
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is the number of bytes that a disk writes completely or not at all.
const sector = 512

// Crash returns the Disk as it could be if the power was lost now. Everything that was synced is
// there. The rest is in pieces: each sector of a write, the length that a write gave the file, a
// truncation, a change of names. keep reports of each piece, by its number, whether it has reached
// the disk. Any choice is allowed, because a file system may write pieces in any order. Open files
// stay with d.
func (d *Disk) Crash(keep func(piece int) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &crash{keep: keep, made: make(map[*node]*node)}
	return &Disk{root: c.node(d.root)}
}

// ErrOff is the error of every operation once the power is off.
var ErrOff = errors.New("disktest: the power is off")

// PowerOff cuts the power between two operations. Every later operation on d fails with [ErrOff].
// The Disk that PowerOff returns is that of [Disk.Crash], and must have everything that the program
// under test has acknowledged by then.
func (d *Disk) PowerOff(keep func(piece int) bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	c := &crash{keep: keep, made: make(map[*node]*node)}
	return &Disk{root: c.node(d.root)}
}

// Pieces returns the number of pieces that Crash would ask about.
func (d *Disk) Pieces() int {
	n := 0
	d.Crash(func(int) bool {
		n++
		return false
	})
	return n
}

// Losses yields choices for [Disk.Crash]. It yields all of them if there are at most limit.
// Otherwise it yields limit of them: nothing kept, everything kept, then a random mix of prefixes,
// of single pieces that are lost or kept, and of random sets.
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

// choice returns choice number c for a Crash of n pieces.
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

// A crash makes the nodes of a Disk after a loss of power.
type crash struct {
	keep func(int) bool
	next int
	made map[*node]*node // by the node before; a file has two names if half of a rename was kept
}

// kept asks keep about the next piece.
func (c *crash) kept() bool {
	c.next++
	return c.keep(c.next - 1)
}

// node returns what is left of n.
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

// write applies the pieces of w that are kept to n.
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
