package announce

import "github.com/offshoot-sdk/offshoot/internal/ahead"

// A guard is for the last of the passes. What it removes was put together by what earlier passes
// removed, so the text counts as hostile: from there on it loses each character with which
// scaffolding starts. The zero guard is for the other passes.
type guard struct {
	on    bool
	drops bool     // the text is hostile
	open  []opener // places that stay, although the reason for that is not passed yet
}

// An opener is a place where nothing starts. That depends on the text up to seen.
type opener struct{ at, seen int }

// waits notes a place where nothing starts.
func (g *guard) waits(at, seen int) {
	if g.on && !g.drops {
		g.open = append(g.open, opener{at, seen})
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

// first returns where the first place is that a removal at At may complete, or the end of what has
// come.
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
		return g.open[0].at
	}
	return len(c.Buf)
}

// shift moves the places down.
func (g *guard) shift(n int) {
	for i := range g.open {
		g.open[i].at -= n
		g.open[i].seen -= n
	}
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
