package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// An asked is what the head of a request says. Its content is the body, or the answer.
type asked struct {
	Root     string  `json:"root"`
	Attempt  int     `json:"attempt,omitempty"`
	Taker    *tenant `json:"taker,omitempty"`
	Answered bool    `json:"answered,omitempty"`
}

// takenTTL is how long a request is known that a process handles.
const takenTTL = MaxLease

// request returns the document of a request. An ID may have any byte.
func (l *ledger) request(id string) chain {
	return l.bodies.document(requestKind, strconv.QuoteToASCII(id))
}

// idOf returns the ID of a request from the name of its document.
func idOf(name string) string {
	id, err := strconv.Unquote(name)
	if err != nil {
		return name
	}
	return id
}

// Ask implements cluster.Ledger.
func (l *ledger) Ask(ctx context.Context, r session.Request) (owner uint64, err error) {
	c := l.request(r.ID)
	for {
		tip, err := c.tip(ctx)
		if err != nil {
			return 0, err
		}
		known := tip.Asked
		content := r.Body
		switch {
		case known == nil:
			known = &asked{Root: r.Root.String()}
		case known.Root != r.Root.String():
			return 0, fmt.Errorf("%w %q: its id is that of a request to another tree",
				session.ErrInvalidRequest, r.ID)
		case known.Answered || known.Taker != nil:
			return l.ownerOf(ctx, r.Root)
		default: // it is known for longer
			if content, err = c.download(ctx, tip); errors.Is(err, errReplaced) {
				continue // it is taken meanwhile
			} else if err != nil {
				return 0, err
			}
		}
		_, err = c.extend(ctx, tip, head{Asked: known}, content, session.RequestMemory)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return 0, err
		}
		return l.ownerOf(ctx, r.Root)
	}
}

// ownerOf returns the incarnation that has a claim on a tree, 0 for none.
func (l *ledger) ownerOf(ctx context.Context, root session.Key) (uint64, error) {
	c, _, err := l.claimOn(ctx, root)
	if err != nil || !c.isClaim() {
		return 0, err
	}
	return c.Owner.Incarnation, nil
}

// addRequest notes a request, or that it is open no more.
func (l *ledger) addRequest(m message) {
	h, err := parseHead(m)
	if err != nil || h.Asked == nil || h.Asked.Answered {
		delete(l.requests, m.subject)
		return
	}
	l.requests[m.subject] = m
}

// Take implements cluster.Ledger.
func (l *ledger) Take(
	ctx context.Context, p session.Process, known []string,
) (taken []session.Request, err error) {
	v, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	done, err := l.asking.refresh(ctx, reading{})
	if err != nil {
		return nil, err
	}
	var open []message
	for subject, m := range l.requests {
		if v.now.Sub(m.time) > takenTTL { // the server has forgotten it
			delete(l.requests, subject)
			continue
		}
		open = append(open, m)
	}
	done()
	me := tenant{p, l.termIfJoined()}
	if !v.has(me) {
		return nil, nil
	}
	for _, m := range open {
		r, ok, failed := l.takeOne(ctx, v, me, m, known)
		if failed != nil {
			err = failed
		}
		if ok {
			taken = append(taken, r)
		}
	}
	slices.SortFunc(taken, func(a, b session.Request) int { return strings.Compare(a.ID, b.ID) })
	if len(taken) > 0 {
		err = nil // the next look finds the others
	}
	return taken, err
}

// takeOne takes a request for the process, if it is for that.
func (l *ledger) takeOne(
	ctx context.Context, v view, me tenant, m message, known []string,
) (r session.Request, ok bool, err error) {
	h, err := parseHead(m)
	if err != nil {
		return r, false, err
	}
	r.ID = idOf(h.Name)
	c := l.request(r.ID)
	tip, err := c.parse(m)
	if err != nil {
		return r, false, err
	}
	a := *tip.Asked
	unknown := a.Taker != nil && *a.Taker == me && !slices.Contains(known, r.ID)
	if a.Taker != nil && v.has(*a.Taker) && !unknown {
		return r, false, nil
	}
	if r.Root, err = session.ParseRoot(a.Root); err != nil {
		return r, false, c.corrupt(m.seq, err.Error())
	}
	l.mu.Lock()
	_, mine := l.mine[r.Root]
	l.mu.Unlock()
	if !mine {
		return r, false, nil
	}
	now, _, err := l.claimOn(ctx, r.Root)
	if err != nil || !now.isClaim() || now.Owner != me {
		return r, false, err
	}
	if r.Body, err = c.download(ctx, tip); errors.Is(err, errReplaced) {
		return r, false, nil // another one has taken it
	} else if err != nil {
		return r, false, err
	}
	a.Attempt++
	a.Taker = &me
	r.Attempt = a.Attempt
	_, err = c.extend(ctx, tip, head{Asked: &a}, r.Body, takenTTL)
	if errors.Is(err, errMoved) {
		return r, false, nil
	}
	if err == nil {
		c.discardOf(ctx, tip)
	}
	return r, err == nil, err
}

// Answer implements cluster.Ledger.
func (l *ledger) Answer(ctx context.Context, p session.Process, id string, answer []byte) error {
	c := l.request(id)
	for {
		tip, err := c.tip(ctx)
		if err != nil || tip.Asked == nil || tip.Asked.Answered || tip.Asked.Taker == nil ||
			tip.Asked.Taker.Process != p {
			return err
		}
		a := *tip.Asked
		a.Answered = true
		_, err = c.extend(ctx, tip, head{Asked: &a}, answer, session.RequestMemory)
		if err == nil {
			c.discardOf(ctx, tip)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
}

// Outcome implements cluster.Ledger.
func (l *ledger) Outcome(ctx context.Context, id string) (answer []byte, done bool, err error) {
	c := l.request(id)
	for {
		tip, err := c.tip(ctx)
		switch {
		case err != nil:
			return nil, true, err
		case tip.Asked == nil: // another call has found that there is no owner
			return nil, true, session.ErrNoOwner
		case tip.Asked.Answered:
			answer, err = c.download(ctx, tip)
			return answer, true, err
		}
		v, err := l.look(ctx)
		var now claim
		var root session.Key
		if err == nil {
			root, err = session.ParseRoot(tip.Asked.Root)
		}
		if err == nil {
			now, _, err = l.claimOn(ctx, root)
		}
		switch taker := tip.Asked.Taker; {
		case err != nil:
			return nil, true, err
		case now.isClaim() && v.has(now.Owner) || taker != nil && v.has(*taker):
			return nil, false, nil
		case taker != nil:
			return nil, true, session.ErrUnanswered
		}
		// Once it is marked no process handles it. One that was taken meanwhile stays.
		_, err = c.extend(ctx, tip, head{Gone: true}, nil, time.Minute)
		if err == nil {
			err = session.ErrNoOwner
		}
		if !errors.Is(err, errMoved) {
			return nil, true, err
		}
	}
}

// lane returns the document of a lane, which may be large. A name may have any byte.
func (l *ledger) lane(name string) chain {
	return l.docs.in(paceUsual).document(laneKind, strconv.QuoteToASCII(name))
}

// readLane reads the document of a lane.
func (l *ledger) readLane(
	ctx context.Context, c chain,
) (view cluster.LaneView, tip link, err error) {
	if tip, err = c.tip(ctx); err != nil || tip.seq == 0 {
		return view, tip, err
	}
	view.Version = int64(tip.seq) //nolint:gosec // it counts messages
	content, err := c.download(ctx, tip)
	if err == nil {
		if err = json.Unmarshal(content, &view.Doc); err != nil {
			err = c.corrupt(tip.seq, err.Error())
		}
	}
	return view, tip, err
}

// readAndLook reads the document of a lane, and looks who has a lease, at the same time: both are
// questions to the server. Who wrote the document is alive as far as the view says, or was gone
// when it was read.
func (l *ledger) readAndLook(
	ctx context.Context, c chain,
) (lane cluster.LaneView, tip link, v view, err error) {
	looked := make(chan error, 1)
	go func() {
		var failed error
		v, failed = l.look(ctx)
		looked <- failed
	}()
	lane, tip, err = l.readLane(ctx, c)
	if failed := <-looked; err == nil {
		err = failed
	}
	joined := func(t lease.Ticket) bool { return !v.lives(t.Owner) } // maybe since the look
	if err == nil && slices.ContainsFunc(lane.Doc.Tickets, joined) {
		v, err = l.look(ctx)
	}
	return lane, tip, v, err
}

// Lanes implements cluster.Ledger.
func (l *ledger) Lanes(
	ctx context.Context, known map[string]int64,
) (changed map[string]cluster.LaneView, now time.Time, err error) {
	changed = make(map[string]cluster.LaneView)
	for name, version := range known {
		view, tip, err := l.readLane(ctx, l.lane(name))
		if err != nil {
			return nil, now, err
		}
		if tip.seq > 0 && view.Version != version {
			changed[name] = view
		}
	}
	if len(changed) == 0 {
		return changed, now, nil
	}
	r, err := l.clock(ctx)
	return changed, r.now, err
}

// ChangeLane implements cluster.Ledger.
func (l *ledger) ChangeLane(
	ctx context.Context, p session.Process, name string,
	f func(doc *lease.Lane, now time.Time, alive func(session.Process) bool) (changed bool),
) (view cluster.LaneView, now time.Time, changed bool, err error) {
	c := l.lane(name)
	for try := 1; ; try++ {
		lane, tip, v, err := l.readAndLook(ctx, c)
		if view = lane; err == nil && !v.lives(p) {
			err = cluster.ErrLapsed
		}
		if err != nil {
			return view, v.now, false, err
		}
		if changed = f(&view.Doc, v.now, v.lives); !changed {
			return view, v.now, false, nil
		}
		content, err := json.Marshal(view.Doc)
		if err != nil {
			return view, v.now, false, err
		}
		l, err := c.extend(ctx, tip, head{}, content, 0)
		if !errors.Is(err, errMoved) {
			view.Version = int64(l.seq) //nolint:gosec // it counts messages
			return view, v.now, err == nil, err
		}
		// Of several that change it at once one wins each time.
		pause := rand.N(time.Duration(min(try, 10)) * 2 * time.Millisecond) //nolint:gosec // any will do
		if err := sleep(ctx, pause); err != nil {
			return view, v.now, false, err
		}
	}
}
