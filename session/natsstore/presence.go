package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// presenceLease is for how long a Store counts as open that has the streams alone and is not heard
// of.
const presenceLease = session.DefaultLease

// A presence is the document that says that a Store is open. One that has the streams alone renews
// it, until it ends. One with a Process writes it once: when that has passed, its process has a
// lease, or does nothing.
//
// Each writes its own before it looks for those of others, so of two that open at a time at least
// one is refused.
type presence struct {
	*engine
	subject string
	o       openStore
	seq     uint64
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// An openStore is what the document of a presence says.
type openStore struct {
	Holder string        `json:"holder"`
	Member bool          `json:"member,omitempty"`
	Lease  time.Duration `json:"lease"`
}

// newPresence says that a Store is open. The error is a *[LockedError] if another one uses the
// streams in the other way.
func newPresence(ctx context.Context, e *engine, o Options) (*presence, error) {
	p := &presence{
		engine: e, subject: e.docs.subject(openKind, token(session.NewID())),
		o: openStore{Holder: o.Process, Member: o.Process != "", Lease: o.Lease},
	}
	if !p.o.Member {
		host, _ := os.Hostname()
		p.o.Holder, p.o.Lease = fmt.Sprintf("%s:%d", host, os.Getpid()), presenceLease
	}
	var err error
	p.seq, err = p.docs.put(ctx, p.subject, p.o, 0, p.o.Lease)
	if err == nil {
		err = p.look(ctx)
	}
	if err != nil {
		p.end() //nolint:contextcheck // also after the end of ctx
		return nil, err
	}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	if !p.o.Member {
		p.wg.Go(func() { p.beats(beating) })
	}
	return p, nil
}

// end takes the document away. A nil p has none.
func (p *presence) end() {
	if p == nil {
		return
	}
	if p.cancel != nil {
		p.cancel()
	}
	p.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // or its lease ends
	defer cancel()
	_ = p.docs.purge(ctx, p.subject, 0)
}

// look returns a *[LockedError] if another Store uses the streams in the other way.
func (p *presence) look(ctx context.Context) error {
	r, err := p.docs.clock(ctx)
	if err != nil {
		return err
	}
	err = p.each(ctx, openKind, func(m message) error {
		var o openStore
		if err := json.Unmarshal(m.data, &o); err == nil && o.Member != p.o.Member {
			return p.refuse(o.Holder, o.Member, m.time.Add(o.Lease), r.now)
		}
		return nil
	})
	if err != nil || p.o.Member {
		return err
	}
	return p.each(ctx, processKind, func(m message) error {
		var v membership
		if err := json.Unmarshal(m.data, &v); err == nil && !v.Left {
			return p.refuse(v.String(), true, m.time.Add(v.Lease), r.now)
		}
		return nil
	})
}

// refuse returns a *[LockedError] unless the holder of a document counts as gone.
func (p *presence) refuse(holder string, member bool, until, now time.Time) error {
	if !now.Before(until) {
		return nil
	}
	return &LockedError{Name: p.name, Holder: holder, Until: until, Member: member}
}

// each calls f with the documents of a kind, until it fails.
func (p *presence) each(ctx context.Context, kind string, f func(message) error) error {
	for seq := uint64(1); ; {
		m, ok, err := p.docs.next(ctx, p.docs.subject(kind, "*"), seq)
		if err == nil && ok {
			err = f(m)
		}
		if err != nil || !ok {
			return err
		}
		seq = m.seq + 1
	}
}

// beats renews the document until ctx ends.
func (p *presence) beats(ctx context.Context) {
	const perLease, again = 3, time.Second
	next := p.o.Lease / perLease
	for sleep(ctx, next) == nil {
		next = p.o.Lease / perLease
		if err := p.beat(ctx); err != nil {
			next = again
		}
	}
}

// beat renews the document. If it was gone, others may have taken the streams: they have them then.
func (p *presence) beat(ctx context.Context) error {
	seq, err := p.docs.put(ctx, p.subject, p.o, p.seq, p.o.Lease)
	if errors.Is(err, errMoved) {
		if seq, err = p.docs.put(ctx, p.subject, p.o, 0, p.o.Lease); err == nil {
			err = p.look(ctx)
		}
	}
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return p.lose(&LostError{Stream: fmt.Sprintf("%q", p.name), Reason: err.Error(), Err: locked})
	}
	if err == nil {
		p.seq = seq
	}
	return err
}
