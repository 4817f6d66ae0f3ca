package natsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A position in a chain is the sequence of a message of the stream and the number of an item in it.
// itemBits is enough for the items of the largest batch: each of them counts 17 bytes at least.
//
// A chain that was imported is placed: its items have the positions that they had in another Store,
// and what comes behind them has the next ones.
const itemBits = 22

// maxItems is how many items one message has at most.
const maxItems = 1 << itemBits

// A head is what a message of a chain says beside its items. It is the JSON of its first line.
type head struct {
	Name string `json:"name"`           // what the chain is of
	Prev uint64 `json:"prev,omitempty"` // the sequence of the message before, 0 for none
	Base uint64 `json:"base,omitempty"` // that of the message with which the chain begins, 0: this one
	N    int    `json:"n,omitempty"`    // how many items the message has
	At   uint64 `json:"at,omitempty"`   // of a placed chain: the position of the first item
	Last uint64 `json:"last,omitempty"` // where the chain ends, if N and At do not say so
	Size int    `json:"size,omitempty"` // of the content, which is in Parts if there are any

	Parts string `json:"parts,omitempty"` // the token of the parts
	First uint64 `json:"first,omitempty"` // the sequence of the first of them
	Floor uint64 `json:"floor,omitempty"` // the First of the message with which the chain begins

	Due      *due   `json:"due,omitempty"`      // of a log
	Epoch    uint64 `json:"epoch,omitempty"`    // of a log: of a claim that was taken from another
	Archived string `json:"archived,omitempty"` // the name of an archived transcript
	Millis   int64  `json:"millis,omitempty"`   // when it was archived
	Gone     bool   `json:"gone,omitempty"`     // what the chain had before was removed
	Asked    *asked `json:"asked,omitempty"`    // of a request
}

// A due is when a log is due, with the sequence of the message that leads to it.
type due struct {
	Sec  int64  `json:"sec"`
	Nsec int    `json:"nsec,omitempty"`
	Seq  uint64 `json:"seq"`
}

// at returns the time that d says, zero for nil.
func (d *due) at() time.Time {
	if d == nil {
		return time.Time{}
	}
	return time.Unix(d.Sec, int64(d.Nsec)).UTC()
}

// A link is a message of a chain. The zero link stands before the first one.
type link struct {
	head
	seq     uint64
	time    time.Time // when the server has taken it; zero: this process has just written it
	content []byte    // as far as it is in the message
}

// base returns the sequence of the message with which the chain begins.
func (l *link) base() uint64 {
	if l.Base > 0 {
		return l.Base
	}
	return l.seq
}

// floor returns a sequence before which nothing is of the chain.
func (l *link) floor() uint64 {
	switch {
	case l.Base > 0 && l.Floor > 0:
		return l.Floor
	case l.Base == 0 && l.First > 0:
		return l.First
	}
	return l.base()
}

// follow returns the head of a message that follows l.
func (l *link) follow() head {
	if l.seq == 0 || l.Gone {
		return head{}
	}
	h := head{Base: l.base(), At: l.next(), Last: l.end(), Due: l.Due, Epoch: l.Epoch}
	if floor := l.floor(); floor < h.Base {
		h.Floor = floor
	}
	return h
}

// next returns the At of what follows l.
func (l *link) next() uint64 {
	if l.At == 0 {
		return 0
	}
	return l.end() + 1
}

// end returns the position at which the chain ends with l.
func (l *link) end() uint64 {
	if l.N > 0 && l.Last == 0 {
		return l.position(l.N - 1)
	}
	return l.Last
}

// begin returns the position of the first item of l. Before it is all that stands before l.
func (l *link) begin() uint64 {
	if l.N > 0 {
		return l.position(0)
	}
	return l.Last
}

// position returns that of an item of l, unless the lines of l have their positions.
func (l *link) position(item int) uint64 {
	if l.At > 0 {
		return l.At + uint64(item) //nolint:gosec // 0 and more
	}
	return l.seq<<itemBits | uint64(item) //nolint:gosec // 0 and more
}

// A chain is a subject with messages that follow each other, each of which names the one before.
type chain struct {
	stream
	name    string // of what it is
	token   string // that stands for the name
	subject string
	noted   bool // its last link is kept in mind
}

// newChain returns the chain of a kind for a name.
func (s stream) newChain(kind, name string) chain {
	t := token(name)
	return chain{s, name, t, s.subject(kind, t), true}
}

// within returns the chain with another timeout.
func (c chain) within(timeout time.Duration) chain {
	c.stream = c.stream.within(timeout)
	return c
}

// document returns a chain of which each message replaces the one before, and that others change.
func (s stream) document(kind, name string) chain {
	c := s.newChain(kind, name)
	c.noted = false
	return c
}

// partKind is the kind of the subjects of parts.
const partKind = "p"

// parseHead returns the head of a message.
func parseHead(m message) (h head, err error) {
	first, _, _ := bytes.Cut(m.data, []byte{'\n'})
	err = json.Unmarshal(first, &h)
	return h, err
}

// parse returns the link that a message is.
func (c chain) parse(m message) (l link, err error) {
	_, content, _ := bytes.Cut(m.data, []byte{'\n'})
	if l.head, err = parseHead(m); err == nil && l.Name != c.name {
		err = fmt.Errorf("it is of %.200q", l.Name)
	}
	if err == nil && l.Parts == "" && l.Size != len(content) {
		err = fmt.Errorf("it has %d bytes, want %d", len(content), l.Size)
	}
	if err != nil {
		return l, c.corrupt(m.seq, err.Error())
	}
	l.seq, l.time, l.content = m.seq, m.time, content
	return l, nil
}

// corrupt returns the error of a chain that is damaged at a message.
func (c chain) corrupt(seq uint64, reason string) error {
	return &session.CorruptError{
		File: "subject " + c.subject, Offset: int64(min(seq, math.MaxInt64)), Reason: reason,
	}
}

// tip returns the last link, and notes it.
func (c chain) tip(ctx context.Context) (l link, err error) {
	m, ok, err := c.last(ctx, c.subject)
	if err != nil || !ok {
		return link{}, err
	}
	if l, err = c.parse(m); err == nil {
		err = c.checkPrev(ctx, m, l.Prev)
	}
	if err != nil {
		return link{}, err
	}
	c.note(l)
	return l, nil
}

// checkPrev returns a *[session.CorruptError] unless the last message of a chain stands right
// behind the one that it names. One that was sent again, by another program, stands behind others,
// which it would hide. The server has compared what a writer of this package sends: any other
// message is compared here.
func (c chain) checkPrev(ctx context.Context, m message, prev uint64) error {
	if m.after == strconv.FormatUint(prev, 10) {
		return nil
	}
	behind, ok, err := c.next(ctx, c.subject, prev+1)
	if err == nil && ok && behind.seq < m.seq {
		err = c.corrupt(m.seq, fmt.Sprintf("it follows message %d, and others stand between", prev))
	}
	return err
}

// note keeps the last link of a chain in mind.
func (c chain) note(l link) {
	if c.noted {
		c.e.tips.note(c.subject, l)
	}
}

// extend adds a message behind a link, which is kept for a time, 0 for ever. The error is errMoved
// if the chain does not end there any more.
func (c chain) extend(
	ctx context.Context, tip link, h head, content []byte, ttl time.Duration,
) (l link, err error) {
	h.Name, h.Prev, h.Size = c.name, tip.seq, len(content)
	l = link{head: h, content: content}
	room := c.e.room - len(c.name)
	if len(content) > room {
		if l.Parts, l.First, err = c.upload(ctx, content, ttl); err != nil {
			return link{}, err
		}
		l.content = nil
	}
	data, err := json.Marshal(l.head)
	if err != nil {
		return link{}, err
	}
	data = append(append(data, '\n'), l.content...)
	l.seq, err = c.publish(ctx, publication{
		subject: c.subject, data: data, after: tip.seq, compares: true, ttl: ttl,
	})
	if err != nil {
		c.e.tips.forget(c.subject)
		if errors.Is(err, errMoved) && l.Parts != "" {
			_ = c.discard(ctx, l.Parts) // or the next snapshot takes them away
		}
		return link{}, err
	}
	c.note(l)
	return l, nil
}

// upload adds the parts of a content, which are kept for a time, 0 for ever. It returns their token
// and the sequence of the first of them.
func (c chain) upload(
	ctx context.Context, content []byte, ttl time.Duration,
) (parts string, first uint64, err error) {
	parts = token(session.NewID())
	for i := 0; len(content) > 0 && err == nil; i++ {
		n := min(len(content), c.e.room)
		var seq uint64
		seq, err = c.publish(ctx, publication{
			subject: c.part(parts, i), data: content[:n], ttl: ttl,
		})
		if i == 0 {
			first = seq
		}
		content = content[n:]
	}
	return parts, first, err
}

// part returns the subject of a part.
func (c chain) part(parts string, i int) string {
	return c.stream.subject(partKind, c.token, parts, strconv.Itoa(i))
}

// discard takes the parts of a content away.
func (c chain) discard(ctx context.Context, parts string) error {
	return c.purge(context.WithoutCancel(ctx), c.stream.subject(partKind, c.token, parts, "*"), 0)
}

// discardOf takes the parts of a link away that another one has replaced. What it does not reach
// goes when its time is over.
func (c chain) discardOf(ctx context.Context, l link) {
	if l.Parts != "" {
		_ = c.discard(ctx, l.Parts)
	}
}

// download returns the content of a link.
func (c chain) download(ctx context.Context, l link) ([]byte, error) {
	if l.Parts == "" {
		return l.content, nil
	}
	content := make([]byte, 0, max(min(l.Size, maxBatchBytes), 0))
	for i := 0; len(content) < l.Size; i++ {
		m, ok, err := c.last(ctx, c.part(l.Parts, i))
		if err != nil {
			return nil, err
		}
		if !ok || len(m.data) == 0 {
			return nil, c.lost(ctx, l.seq, fmt.Sprintf("part %d of the message is missing", i))
		}
		content = append(content, m.data...)
	}
	if len(content) != l.Size {
		return nil, c.corrupt(l.seq, fmt.Sprintf("the parts have %d bytes, want %d",
			len(content), l.Size))
	}
	return content, nil
}

// lost returns why what belongs to a message is not there: the chain begins behind it meanwhile, or
// it is damaged.
func (c chain) lost(ctx context.Context, seq uint64, reason string) error {
	tip, err := c.tip(ctx)
	switch {
	case err != nil:
		return err
	case tip.seq == 0 || tip.base() > seq:
		return errReplaced
	}
	return c.corrupt(seq, reason)
}

// links yields the links from a sequence on, up to tip, in order.
func (c chain) links(ctx context.Context, from uint64, tip link) iter.Seq2[link, error] {
	return func(yield func(link, error) bool) {
		r := &chainReader{chain: c, tip: tip}
		var prev uint64
		for seq := from; seq <= tip.seq; {
			l, err := r.link(ctx, seq, prev)
			if err == nil && (prev > 0 && l.Prev != prev || prev == 0 && l.Prev >= from) {
				err = c.lost(ctx, seq, "the message before is missing")
			}
			if err != nil {
				yield(link{}, err)
				return
			}
			if !yield(l, nil) {
				return
			}
			prev, seq = l.seq, l.seq+1
		}
	}
}

// A chainReader reads the links of a chain one after the other. A long chain is read in pieces of
// many messages, in a quarter of the time that a question for each of them takes (BenchmarkRead):
// a tree is read when it is taken over, and people wait.
type chainReader struct {
	chain
	tip   link
	asked int       // questions for one message each
	ahead []message // that have come at once and are next
}

// The most messages that a chainReader asks for at once, and about the most bytes of them.
const aheadMessages, aheadBytes = 1000, 4 << 20

// link returns the first link from a sequence on. prev is the sequence of the one before, 0 for
// none.
func (r *chainReader) link(ctx context.Context, seq, prev uint64) (link, error) {
	if seq == r.tip.seq {
		return r.tip, nil
	}
	if l, ok := r.next(seq, prev); ok {
		return l, nil
	}
	if r.asked++; r.asked > many {
		r.fetch(ctx, seq)
		if l, ok := r.next(seq, prev); ok {
			return l, nil
		}
		r.asked = 0
	}
	m, ok, err := r.chain.next(ctx, r.subject, seq)
	if err == nil && !ok {
		err = r.lost(ctx, seq, "the message is missing")
	}
	if err != nil {
		return link{}, err
	}
	return r.parse(m)
}

// next returns the first link from a sequence on, if it has come with others. What does not follow
// the one before is asked of the leader, who decides what is damage.
func (r *chainReader) next(seq, prev uint64) (link, bool) {
	for len(r.ahead) > 0 {
		m := r.ahead[0]
		r.ahead = r.ahead[1:]
		if m.seq < seq {
			continue
		}
		if l, err := r.parse(m); err == nil && prev > 0 && l.Prev == prev {
			return l, true
		}
		r.ahead = nil
	}
	return link{}, false
}

// fetch asks for many messages from a sequence on.
func (r *chainReader) fetch(ctx context.Context, seq uint64) {
	size := 0
	r.bulk(ctx, r.subject, seq, func(m message) (more bool) {
		r.ahead = append(r.ahead, m)
		size += len(m.data)
		return m.seq < r.tip.seq && len(r.ahead) < aheadMessages && size < aheadBytes
	})
}

// from returns the message with which to begin for the items behind a position.
func (c chain) from(ctx context.Context, tip link, after uint64) (seq uint64, err error) {
	switch {
	case tip.At == 0:
		return max(tip.base(), after>>itemBits), nil
	case after == 0:
		return tip.base(), nil
	}
	seq, _, err = c.back(ctx, tip, after, math.MaxInt)
	return seq, err
}

// back returns the message with which to begin for the last n items behind a position, and how many
// of those behind the position are to be left out.
func (c chain) back(
	ctx context.Context, tip link, after uint64, n int,
) (from uint64, skip int, err error) {
	l, found := tip, 0
	for {
		if l.N > 0 && l.end() > after {
			passed, err := c.passed(ctx, l, after)
			if err != nil {
				return 0, 0, err
			}
			found += l.N - passed
		}
		if found >= n || l.seq == tip.base() || l.begin() <= after {
			return l.seq, max(found-n, 0), nil
		}
		m, ok, err := c.at(ctx, l.Prev)
		if err == nil && (!ok || m.subject != c.subject) {
			err = c.lost(ctx, l.Prev, "the message is missing")
		}
		if err != nil {
			return 0, 0, err
		}
		if l, err = c.parse(m); err != nil {
			return 0, 0, err
		}
	}
}

// passed returns how many items of a link that ends behind a position are not behind it.
func (c chain) passed(ctx context.Context, l link, after uint64) (n int, err error) {
	switch {
	case after < l.begin():
		return 0, nil
	case !l.placesLines():
		return int(after-l.begin()) + 1, nil //nolint:gosec // less than N
	}
	err = c.lines(ctx, l, func(pos uint64, _ []byte) error {
		if pos <= after {
			n++
		}
		return nil
	})
	return n, err
}

// shorten takes away what stands before the link with which a chain begins.
func (c chain) shorten(ctx context.Context, l link) {
	// What it does not reach goes the next time.
	_ = c.purge(ctx, c.subject, l.base())
	_ = c.purge(ctx, c.stream.subject(partKind, c.token, ">"), l.floor())
}

// tips are the last links of chains, as this process knows them. A link that is known is the last
// one if the server takes what is to follow it.
type tips struct {
	mu    sync.Mutex
	known map[string]link
}

// maxTips is how many tips are kept.
const maxTips = 8192

func (t *tips) note(subject string, l link) {
	l.content = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[subject].seq > l.seq {
		return
	}
	if t.known == nil {
		t.known = make(map[string]link)
	}
	if _, ok := t.known[subject]; !ok && len(t.known) >= maxTips {
		for other := range t.known { // any will do
			delete(t.known, other)
			break
		}
	}
	t.known[subject] = l
}

func (t *tips) forget(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, subject)
}

func (t *tips) get(subject string) (link, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.known[subject]
	return l, ok
}
