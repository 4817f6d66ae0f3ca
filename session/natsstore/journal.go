package natsstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/remote"
)

// maxBatchBytes is the most that the entries of a batch take.
const maxBatchBytes = 4 * session.BatchLimit

// The kinds of the subjects of the stream of logs.
const (
	entryKind  = "e" // the messages of a log: e.<token of the root>
	dueKind    = "d" // what leads to the logs that are due within an hour: d.<hour>
	memberKind = "m" // what leads from a member to its log: m.<token of the member>.<of the root>
)

// A journal is the [session.Journal] of a Store.
type journal struct{ *engine }

// Close closes the Store. Each of its parts may be closed.
func (j journal) Close() error {
	j.close()
	return nil
}

// Health asks the server whether it is there. Where it did not take what was last written, it is
// asked to take something small. A server that is silent is waited for as long as Options.Timeout
// says: a caller that wants to know sooner has its ctx end.
func (j journal) Health(ctx context.Context) error {
	err := j.check(ctx)
	for _, s := range []stream{j.log, j.text, j.docs} {
		if err == nil {
			_, err = s.clock(ctx)
		}
		if err == nil {
			err = s.probe(ctx)
		}
	}
	if err == nil && j.members != nil {
		err = j.members.Health()
	}
	if err != nil {
		return fmt.Errorf("natsstore: health: %w", err)
	}
	return nil
}

// encode returns the content of a message that is a batch: its id and its entries, one a line.
func encode(b session.Batch) (content []byte, err error) {
	if len(b.Entries) > maxItems {
		return nil, fmt.Errorf("%w %q: it has %d entries, at most %d",
			session.ErrInvalidBatch, b.ID, len(b.Entries), maxItems)
	}
	content = append(base64.StdEncoding.AppendEncode(nil, []byte(b.ID)), '\n')
	content, over, err := remote.AppendEntries(content, b, maxBatchBytes)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // its text is whole
	case over > 0:
		return nil, &BatchSizeError{b.ID, over, len(content), maxBatchBytes}
	}
	return content, nil
}

// chainOf returns the log of a root.
func (j journal) chainOf(root session.Key) chain {
	return j.log.newChain(entryKind, root.String())
}

func (j journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	return j.add(ctx, root, after, 0, b)
}

// add appends a batch. Its entries have the sequences from first on, 0: those that the chain gives.
func (j journal) add(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (last session.Seq, err error) {
	var content []byte
	if err = j.check(ctx); err == nil && root.IsZero() {
		err = fmt.Errorf("root %q: %w", root, session.ErrInvalidKey)
	}
	if err == nil {
		err = b.Validate()
	}
	if err == nil {
		content, err = encode(b)
	}
	if err == nil {
		last, err = j.append(ctx, root, after, first, b, content)
	}
	if err != nil {
		return 0, fmt.Errorf("natsstore: append to %q after %d: %w", root, after, err)
	}
	return last, nil
}

// append adds a batch behind the end of a log, if that is where the writer believes.
func (j journal) append(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
	content []byte,
) (session.Seq, error) {
	c := j.chainOf(root)
	tip, known := j.tips.get(c.subject)
	if !known || tip.end() != uint64(after) {
		var err error
		if tip, err = c.tip(ctx); err != nil {
			return 0, err
		}
	}
	if tip.end() != uint64(after) || j.isTaken(root, tip) {
		return 0, session.ErrConflict
	}
	h := tip.follow()
	if b.Reset {
		h = head{At: tip.next(), Due: tip.Due, Epoch: tip.Epoch}
	}
	if first > 0 {
		h.At = uint64(first)
	}
	h.N, h.Last = len(b.Entries), 0
	leads, err := j.lead(ctx, root, b, &h)
	var l link
	if err == nil {
		l, err = c.extend(ctx, tip, h, content, 0)
	}
	if errors.Is(err, errMoved) {
		j.unlead(ctx, leads)
		return 0, session.ErrConflict
	}
	if err != nil {
		return 0, err
	}
	if tip.Due != nil && (l.Due == nil || l.Due.Seq != tip.Due.Seq) {
		_ = j.log.remove(ctx, tip.Due.Seq) // or Roots and Orphans do
	}
	if b.Reset && tip.seq > 0 {
		c.shorten(ctx, tip) // a reader that began before may still want what this one replaces
		_ = j.log.purge(ctx, j.log.subject(memberKind, "*", c.token), tip.seq+1)
	}
	return session.Seq(l.end()), nil
}

// isTaken reports whether another process has taken a tree from this one, which has claimed it and
// not released it.
func (j journal) isTaken(root session.Key, tip link) bool {
	if j.members == nil {
		return false
	}
	epoch := j.members.Epoch(root)
	return epoch > 0 && epoch < tip.Epoch
}

// fence marks the log of a tree that was taken from another process with the epoch of the claim:
// so that nothing comes behind the mark which that process has begun. A log that has no entries
// needs no mark, because of two writers that begin it one succeeds.
func (j journal) fence(ctx context.Context, root session.Key, epoch uint64) error {
	c := j.chainOf(root)
	for {
		tip, err := c.tip(ctx)
		if err != nil || tip.seq == 0 || tip.Epoch >= epoch {
			return err
		}
		h := tip.follow()
		h.Epoch = epoch
		if _, err = c.extend(ctx, tip, h, nil, 0); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// lead writes what leads to a log, before the message that needs it: so that a log is found from
// the moment when that has come. It completes the head, and returns what leads to a due time.
func (j journal) lead(
	ctx context.Context, root session.Key, b session.Batch, h *head,
) (written uint64, err error) {
	s := j.log
	for _, member := range b.Members {
		_, err = s.publish(ctx, publication{
			subject: s.subject(memberKind, token(member.String()), token(root.String())),
			data:    []byte(member.String()),
		})
		if err != nil {
			return 0, err
		}
	}
	switch {
	case b.Due.IsZero():
		h.Due = nil
		return 0, nil
	case h.Due != nil && h.Due.at().Equal(b.Due):
		return 0, nil
	}
	h.Due = &due{Sec: b.Due.Unix(), Nsec: b.Due.Nanosecond()}
	data, err := json.Marshal(lead{root.String(), h.Due.Sec, h.Due.Nsec})
	if err != nil {
		return 0, err
	}
	h.Due.Seq, err = s.publish(ctx, publication{
		subject: s.subject(dueKind, newHour(b.Due).token()), data: data,
	})
	return h.Due.Seq, err
}

// unlead takes away what leads to a due time that no message has.
func (j journal) unlead(ctx context.Context, written uint64) {
	if written > 0 {
		_ = j.log.remove(context.WithoutCancel(ctx), written)
	}
}

// content returns the batch id and the entries of a link.
func (c chain) entries(ctx context.Context, l link) (id session.BatchID, all [][]byte, err error) {
	content, err := c.download(ctx, l)
	if err != nil {
		return "", nil, err
	}
	lines := bytes.Split(content, []byte{'\n'})
	name, err := base64.StdEncoding.AppendDecode(nil, lines[0])
	if err == nil && len(lines)-1 != l.N {
		err = fmt.Errorf("the batch has %d entries, want %d", len(lines)-1, l.N)
	}
	if err != nil {
		return "", nil, c.corrupt(l.seq, err.Error())
	}
	return session.BatchID(name), lines[1:], nil
}

func (j journal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		err := j.check(ctx)
		if err == nil {
			err = j.read(ctx, root, uint64(after), func(e session.Entry) bool {
				return yield(e, nil)
			})
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(session.Entry{}, fmt.Errorf("natsstore: read %q: %w", root, err))
		}
	}
}

// errStopped says that a caller wants no more.
var errStopped = errors.New("natsstore: the loop was left")

// read yields the entries behind a position.
func (j journal) read(
	ctx context.Context, root session.Key, after uint64, yield func(session.Entry) bool,
) error {
	c := j.chainOf(root)
	tip, err := c.tip(ctx)
	if err != nil || tip.seq == 0 {
		return err
	}
	from, err := c.from(ctx, tip, after)
	if err != nil {
		return err
	}
	for l, err := range c.links(ctx, from, tip) {
		var id session.BatchID
		var entries [][]byte
		if err == nil {
			id, entries, err = c.entries(ctx, l)
		}
		if err != nil {
			return err
		}
		for i, entry := range entries {
			e := session.Entry{Seq: session.Seq(l.position(i)), Batch: id}
			e.Payload = session.Raw(entry)
			if uint64(e.Seq) > after && !yield(e) {
				return errStopped
			}
		}
		if err := j.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j journal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		var last error
		err := j.check(ctx)
		if err == nil {
			err = j.roots(ctx, q, func(h session.Head, err error) bool {
				if err != nil {
					last = err // of one log, which hides no other
					return true
				}
				return yield(h, nil)
			})
		}
		if err = errors.Join(err, last); err != nil && !errors.Is(err, errStopped) {
			yield(session.Head{}, fmt.Errorf("natsstore: roots: %w", err))
		}
	}
}

// roots calls f with the head of each log that q selects, or why it cannot be read.
func (j journal) roots(
	ctx context.Context, q session.RootQuery, f func(session.Head, error) bool,
) error {
	roots, err := j.candidates(ctx, q)
	if err != nil {
		return err
	}
	for _, c := range roots {
		m, ok, err := c.last(ctx, c.subject)
		if err == nil && ok {
			var h session.Head
			h, err = headOfMessage(ctx, c, m)
			early := q.DueBefore.IsZero() || !h.Due.IsZero() && h.Due.Before(q.DueBefore)
			if err == nil && !early {
				continue
			}
			if err == nil && !f(h, nil) {
				return errStopped
			}
		}
		if fail := j.check(ctx); fail != nil {
			return fail
		}
		if err != nil && !errors.Is(err, session.ErrCorrupt) {
			return err
		}
		if err != nil {
			f(session.Head{}, err)
		}
	}
	return nil
}

// headOfMessage returns the Head that the last message of a log says.
func headOfMessage(ctx context.Context, c chain, m message) (h session.Head, err error) {
	var l link
	if l.head, err = parseHead(m); err == nil {
		h.Root, err = session.ParseRoot(l.Name)
	}
	if err == nil && token(l.Name) != c.token {
		err = errors.New("it is of another log")
	}
	if err != nil {
		return h, c.corrupt(m.seq, err.Error())
	}
	if err = c.checkPrev(ctx, m, l.Prev); err != nil {
		return h, err
	}
	l.seq = m.seq
	return session.Head{Root: h.Root, Last: session.Seq(l.end()), Due: l.Due.at()}, nil
}

// candidates returns the logs among which are all that q selects.
func (j journal) candidates(ctx context.Context, q session.RootQuery) ([]chain, error) {
	s := j.log
	var tokens []string
	var err error
	switch {
	case !q.Member.IsZero():
		tokens, err = j.lastTokens(ctx, s.subject(memberKind, token(q.Member.String()), "*"))
	case !q.DueBefore.IsZero():
		tokens, err = j.dueBefore(ctx, q.DueBefore)
	default:
		tokens, err = j.lastTokens(ctx, s.subject(entryKind, "*"))
	}
	var found []chain
	for _, t := range tokens {
		found = append(found, chain{stream: s, token: t, subject: s.subject(entryKind, t)})
	}
	return found, err
}

// lastTokens returns the last tokens of the subjects that a filter matches, each once.
func (j journal) lastTokens(ctx context.Context, filter string) ([]string, error) {
	subjects, err := j.log.subjects(ctx, filter)
	var found []string
	for subject := range subjects {
		found = append(found, lastToken(subject))
	}
	return found, err
}

// dueBefore returns the tokens of logs among which are all that are due before a time.
func (j journal) dueBefore(ctx context.Context, before time.Time) (tokens []string, err error) {
	s := j.log
	hours, err := s.subjects(ctx, s.subject(dueKind, "*"))
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for subject := range hours {
		if h, ok := parseHour(lastToken(subject)); !ok || h > newHour(before) {
			continue
		}
		for seq := uint64(1); ; {
			m, ok, err := s.next(ctx, subject, seq)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			seq = m.seq + 1
			d, ok := parseLead(m)
			if !ok || !d.at().Before(before) || seen[d.Root] {
				continue
			}
			seen[d.Root] = true
			tokens = append(tokens, token(d.Root))
		}
	}
	return tokens, nil
}
