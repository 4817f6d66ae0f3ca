package dirstore

import (
	"context"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A carriedLines is the newest lines of one transcript, which the log does not have yet. They go
// there with the next batch of their tree, in one request: the log has the batch and the lines, or
// neither. Whatever comes to the transcript by another way takes them along, so that the log has
// the lines of a transcript in their order.
type carriedLines struct {
	root  session.Key
	parts []loggedLines // in order, each behind the one before
	bytes int           // of all parts
	taken int           // how many of the parts a write under way has; 0: there is none
	busy  chan struct{} // closed when that write ends; nil if no call waits for it
}

// CarriedBy implements [session.Carrier].
func (t *transcripts) CarriedBy(j session.Journal) bool {
	own, ok := j.(*journal)
	return ok && t.lines != nil && own.lines == t.lines
}

// AppendWith implements [session.Carrier]. The lines go to the log with the next batch of root, and
// about a second later if there is none. More than 64 KiB of them are durable at once, as with
// Append, and so are those of the zero root.
func (t *transcripts) AppendWith(
	ctx context.Context, root session.Key, ref session.Ref, after session.Pos,
	messages ...session.Message,
) (session.Pos, error) {
	return t.appendMessages(ctx, root, ref, after, messages)
}

// carry keeps lines for the next batch of root. It reports false if they cannot wait for it: they
// are too many, those before them wait for another tree, or the log takes no lines any more. Their
// bytes stay as they are from then on, and have no room behind them.
func (l *lineLog) carry(root session.Key, lines loggedLines) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.carried[lines.ref]
	switch {
	case l.shut, c != nil && (c.root != root || c.bytes+len(lines.bytes) > l.limit):
		return false
	case c == nil:
		c = &carriedLines{root: root}
		l.carried[lines.ref] = c
		l.riders[root] = append(l.riders[root], lines.ref)
	}
	c.bytes += len(lines.bytes)
	if n := len(c.parts); n > c.taken && c.parts[n-1].end() == lines.off {
		c.parts[n-1].bytes = append(c.parts[n-1].bytes, lines.bytes...)
	} else {
		c.parts = append(c.parts, lines)
	}
	l.waiting[lines.ref] = true // a Close from here on waits for the call that carries them
	return true
}

// A ride is the carried lines that one write takes.
type ride struct {
	l       *lineLog
	records []wal.Record
	taken   []*carriedLines
}

// ride returns the lines that a batch of root takes. The caller calls ended once. No other write
// takes lines of the same transcripts before.
func (l *lineLog) ride(root session.Key) *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.riders[root]) == 0 {
		return nil
	}
	r := &ride{l: l}
	for _, ref := range l.riders[root] {
		if c := l.carried[ref]; c.taken == 0 {
			r.take(c)
		}
	}
	return r
}

// take takes the lines of one transcript. The caller holds the mu of the log.
func (r *ride) take(c *carriedLines) {
	c.taken = len(c.parts)
	r.taken = append(r.taken, c)
	for i := range c.parts {
		r.records = append(r.records,
			wal.Record{Kind: frameLines, Payload: c.parts[i].appendTo(nil)})
	}
}

// len returns how many records the lines are.
func (r *ride) len() int {
	if r == nil {
		return 0
	}
	return len(r.records)
}

// ended ends a ride, with the places of the records in the log. After an error the lines wait for
// the next one.
func (r *ride) ended(at []wal.Span, err error) {
	if r == nil {
		return
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for _, c := range r.taken {
		n := c.taken
		if c.taken = 0; c.busy != nil {
			close(c.busy)
			c.busy = nil
		}
		if err != nil {
			continue
		}
		for i := range n {
			r.l.noteLocked(c.parts[i].ref, at[i])
			c.bytes -= len(c.parts[i].bytes)
		}
		at = at[n:]
		r.l.drop(c, n)
	}
}

// drop forgets the first n parts, which the log has. The caller holds mu.
func (l *lineLog) drop(c *carriedLines, n int) {
	ref := c.parts[0].ref
	if c.parts = c.parts[n:]; len(c.parts) > 0 {
		return
	}
	delete(l.carried, ref)
	left := slices.DeleteFunc(l.riders[c.root], func(r session.Ref) bool { return r == ref })
	if l.riders[c.root] = left; len(left) == 0 {
		delete(l.riders, c.root)
	}
}

// takeAlone returns the ride of the lines of one transcript, or nil if none are carried. It waits
// for a write under way that has some of them.
func (l *lineLog) takeAlone(ref session.Ref) *ride {
	for {
		r, busy := l.tryAlone(ref)
		if busy == nil {
			return r
		}
		<-busy
	}
}

// tryAlone is takeAlone, but returns what is closed at the end of a write under way.
func (l *lineLog) tryAlone(ref session.Ref) (r *ride, busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.carried[ref]
	switch {
	case c == nil:
		return nil, nil
	case c.taken > 0:
		if c.busy == nil {
			c.busy = make(chan struct{})
		}
		return nil, c.busy
	}
	r = &ride{l: l}
	r.take(c)
	return r, nil
}

// sink makes the carried lines of a transcript durable, without a batch. They are durable or
// carried still.
func (l *lineLog) sink(ref session.Ref) error {
	if l == nil {
		return nil
	}
	r := l.takeAlone(ref)
	if r == nil {
		return nil
	}
	return l.log.Write(r.records, r.ended)
}

// carries reports whether there are lines that the log does not have.
func (l *lineLog) carries() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.carried) > 0
}
