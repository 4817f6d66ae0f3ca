package announce

import "github.com/offshoot-sdk/offshoot/internal/ahead"

// A guard is for the last of the passes. What it removes was put together by what earlier passes
// removed, so the text counts as hostile: from there on it loses each character with which
// scaffolding starts. The zero guard is for the other passes.
type guard struct {
	on    bool
	drops bool     // the text is hostile
	open  []opener // places that stay, although the reason for that is not passed yet
	last  chain
}

// An opener is a place where nothing starts. That depends on the text up to seen. If the place
// loses its character, so must those from the position from on, which looked at it.
type opener struct{ at, seen, from int }

// A chain is places of which each was looked at for the sake of one before it: "[[THINK]" would
// begin with a mark if the second bracket alone were lost.
type chain struct {
	from  int // where the first place is
	reach int // the position behind all that was looked at
}

// maxChain is how far from a place its chain may begin, in bytes.
const maxChain = 1024

// next returns the chain with the next place, which looks at the text up to seen.
func (c chain) next(at, seen int) chain {
	if at >= c.reach {
		c.from = at
	}
	return chain{max(c.from, at-maxChain), max(c.reach, seen)}
}

// waits notes a place where nothing starts.
func (g *guard) waits(at, seen int) {
	if g.on && !g.drops {
		g.last = g.last.next(at, seen)
		g.open = append(g.open, opener{at, seen, g.last.from})
	}
}

// hold returns the position up to which text may be shown, at most limit: the text that a removal
// right behind it may complete is held.
func (g *guard) hold(c *ahead.Cursor, limit int) int {
	if first := g.first(c); !c.Final {
		return min(limit, first)
	}
	return limit
}

// first returns where the chain of the first place begins that a removal at At may complete, or the
// end of what has come.
func (g *guard) first(c *ahead.Cursor) int {
	n := 0
	for _, o := range g.open {
		if o.seen > c.At {
			g.open[n] = o
			n++
		}
	}
	g.open = g.open[:n]
	if n > 0 {
		return g.open[0].from
	}
	return len(c.Buf)
}

// shift moves the places down.
func (g *guard) shift(n int) {
	for i := range g.open {
		g.open[i].at -= n
		g.open[i].seen -= n
		g.open[i].from -= n
	}
	g.last.from -= n
	g.last.reach -= n
}

// cut keeps what stands before a removal, and reports whether the text is hostile. It loses the
// places that the removal may complete.
func (g *guard) cut(c *ahead.Cursor) (hostile bool) {
	if !g.on {
		c.Keep(c.At)
		return false
	}
	c.Keep(min(g.first(c), c.At))
	c.Map = dropOpeners
	c.Keep(c.At)
	g.drops, g.open = true, nil
	return true
}

// dropOpeners returns a text without the characters with which scaffolding starts.
func dropOpeners(text string) string {
	return withoutOpeners.Replace(text)
}
