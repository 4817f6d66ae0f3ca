package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/offshoot-sdk/offshoot/session"
)

// A brokenOwners is the Owners of one process of a Cluster, with methods that a spoiler has
// replaced.
type brokenOwners struct {
	inner  session.Owners
	name   string
	shared *sync.Map // of all processes on the engine
	store  *session.Store

	claim   func(ctx context.Context, root session.Key) (session.Claim, error)
	release func(ctx context.Context, c session.Claim) error
	call    func(ctx context.Context, r session.Request) ([]byte, error)
	serve   func(ctx context.Context, m session.Member) error
	orphans func(ctx context.Context) iter.Seq2[session.Key, error]
	lane    func(name string, limit int, u session.LaneUser) session.Lane
}

func (b *brokenOwners) Claim(ctx context.Context, root session.Key) (session.Claim, error) {
	return b.claim(ctx, root)
}

func (b *brokenOwners) Release(ctx context.Context, c session.Claim) error {
	return b.release(ctx, c)
}

func (b *brokenOwners) Call(ctx context.Context, r session.Request) ([]byte, error) {
	return b.call(ctx, r)
}
func (b *brokenOwners) Serve(ctx context.Context, m session.Member) error { return b.serve(ctx, m) }
func (b *brokenOwners) Orphans(ctx context.Context) iter.Seq2[session.Key, error] {
	return b.orphans(ctx)
}

func (b *brokenOwners) Lane(name string, limit int, u session.LaneUser) session.Lane {
	return b.lane(name, limit, u)
}

func (b *brokenOwners) Close() error { return b.inner.(io.Closer).Close() }

// A brokenLane is the same for a lane.
type brokenLane struct {
	session.Lane
	ask      func(t session.Ticket) error
	free     func(id string)
	pause    func(provider string, d time.Duration)
	setLimit func(limit int)
}

func (l *brokenLane) Ask(t session.Ticket) error             { return l.ask(t) }
func (l *brokenLane) Free(id string)                         { l.free(id) }
func (l *brokenLane) Pause(provider string, d time.Duration) { l.pause(provider, d) }
func (l *brokenLane) SetLimit(limit int)                     { l.setLimit(limit) }
func (b *brokenOwners) spoilLane(spoil func(l *brokenLane))  { b.spoilLaneOf(1, spoil) }

// spoilLaneOf has the lanes of a process be spoiled, whose limit is times what is asked for.
func (b *brokenOwners) spoilLaneOf(times int, spoil func(l *brokenLane)) {
	b.lane = func(name string, limit int, u session.LaneUser) session.Lane {
		inner := b.inner.Lane(name, limit*times, u)
		l := &brokenLane{inner, inner.Ask, inner.Free, inner.Pause, inner.SetLimit}
		spoil(l)
		return l
	}
}

// spoilClaim has f change the claims that Claim returns.
func (b *brokenOwners) spoilClaim(f func(c *session.Claim)) {
	b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
		c, err := b.inner.Claim(ctx, root)
		if err == nil {
			f(&c)
		}
		return c, err
	}
}

// spoilLease has f change what Serve says of the lease.
func (b *brokenOwners) spoilLease(f func(l *session.Lease)) {
	b.serve = func(ctx context.Context, m session.Member) error {
		told := m.Lease
		m.Lease = func(l session.Lease) {
			f(&l)
			told(l)
		}
		return b.inner.Serve(ctx, m)
	}
}

// spoilCall has f change the requests of Call.
func (b *brokenOwners) spoilCall(f func(r *session.Request)) {
	b.call = func(ctx context.Context, r session.Request) ([]byte, error) {
		f(&r)
		return b.inner.Call(ctx, r)
	}
}

// swap returns other for an error that is one.
func swap(err, one, other error) error {
	if errors.Is(err, one) {
		return other
	}
	return err
}

// brokenClaims breaks the rules on claims and leases.
var brokenClaims = map[string]func(b *brokenOwners){
	"claim":       func(b *brokenOwners) { b.spoilClaim(func(c *session.Claim) { c.Owner.Name = "" }) },
	"claim again": func(b *brokenOwners) { b.spoilClaim(b.countEpoch()) },
	"owned": func(b *brokenOwners) {
		b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
			c, err := b.inner.Claim(ctx, root)
			return c, swap(err, session.ErrOwned, session.ErrOwned)
		}
	},
	"one claimer": func(b *brokenOwners) {
		b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
			c, err := b.inner.Claim(ctx, root)
			return c, swap(err, session.ErrOwned, nil)
		}
	},
	"epoch": func(b *brokenOwners) { b.spoilClaim(func(c *session.Claim) { c.Epoch = 1 }) },
	"release": func(b *brokenOwners) {
		b.release = func(context.Context, session.Claim) error { return nil }
	},
	"stale release": func(b *brokenOwners) {
		b.release = func(ctx context.Context, c session.Claim) error {
			now, err := b.inner.Claim(ctx, c.Root)
			if err != nil {
				return nil
			}
			return b.inner.Release(ctx, now)
		}
	},
	"trees apart": func(b *brokenOwners) {
		b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
			text, _, _ := strings.Cut(root.String(), ":thread:")
			key, err := session.Parse(text)
			if err != nil {
				key = root
			}
			return b.inner.Claim(ctx, key)
		}
	},
	"beat": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			m.Lease(session.Lease{Until: time.Now().Add(time.Second)})
			<-ctx.Done()
			return nil
		}
	},
	"lapse": func(b *brokenOwners) {
		b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
			first, _ := b.shared.LoadOrStore(root, b.name)
			if first != b.name {
				return session.Claim{}, &session.OwnedError{}
			}
			return b.inner.Claim(ctx, root)
		}
	},
	"back": func(b *brokenOwners) {
		b.spoilLease(func(l *session.Lease) {
			l.Taken = append(l.Taken, session.Claim{Root: treeKey("one")})
		})
	},
	"taken": func(b *brokenOwners) { b.spoilLease(func(l *session.Lease) { l.Taken = nil }) },
	"until": func(b *brokenOwners) {
		b.spoilLease(func(l *session.Lease) { l.Until = l.Until.Add(time.Minute) })
	},
	"lease length": func(b *brokenOwners) { b.spoilLease(func(l *session.Lease) { l.Length = 0 }) },
	"leave": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			go func() { _ = b.inner.Serve(context.WithoutCancel(ctx), m) }()
			<-ctx.Done()
			return nil
		}
	},
	"replaced": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			return swap(b.inner.Serve(ctx, m), session.ErrReplaced, nil)
		}
	},
	"serving": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			return swap(b.inner.Serve(ctx, m), session.ErrServing, nil)
		}
	},
}

// countEpoch returns a function that counts the claims as epochs.
func (b *brokenOwners) countEpoch() func(c *session.Claim) {
	n := uint64(0)
	return func(c *session.Claim) {
		n++
		c.Epoch = n
	}
}

// brokenCalls breaks the rules on requests, orphans and errors.
var brokenCalls = map[string]func(b *brokenOwners){
	"call": func(b *brokenOwners) {
		b.spoilCall(func(r *session.Request) {
			r.Body = []byte(strings.ToValidUTF8(string(r.Body), "?"))
		})
	},
	"call oneself": func(b *brokenOwners) {
		b.call = func(ctx context.Context, r session.Request) ([]byte, error) {
			if c, err := b.inner.Claim(ctx, r.Root); err == nil && c.Owner.Name == b.name {
				return nil, session.ErrNoOwner
			}
			return b.inner.Call(ctx, r)
		}
	},
	"no owner": func(b *brokenOwners) {
		b.call = func(ctx context.Context, r session.Request) ([]byte, error) {
			answer, err := b.inner.Call(ctx, r)
			return answer, swap(err, session.ErrNoOwner, session.ErrUnanswered)
		}
	},
	"once": func(b *brokenOwners) {
		b.spoilCall(func(r *session.Request) { r.ID += session.NewID() })
	},
	"call waits": func(b *brokenOwners) {
		b.call = func(ctx context.Context, r session.Request) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			answer, err := b.inner.Call(ctx, r)
			return answer, swap(err, context.DeadlineExceeded, session.ErrNoOwner)
		}
	},
	"unanswered": func(b *brokenOwners) {
		b.call = func(ctx context.Context, r session.Request) ([]byte, error) {
			answer, err := b.inner.Call(ctx, r)
			return answer, swap(err, session.ErrUnanswered, session.ErrNoOwner)
		}
	},
	"attempt": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			handle := m.Handle
			m.Handle = func(ctx context.Context, r session.Request) []byte {
				r.Attempt = 1
				return handle(ctx, r)
			}
			return b.inner.Serve(ctx, m)
		}
	},
	"bad request": func(b *brokenOwners) {
		b.spoilCall(func(r *session.Request) {
			if r.ID == "" {
				r.ID = session.NewID()
			}
		})
	},
	"orphans": func(b *brokenOwners) { b.yieldRoots(session.RootQuery{}, true) },
	"orphans all": func(b *brokenOwners) {
		b.spoilOrphans(func(_, trees int) bool { return trees <= 30 })
	},
	"orphans once": func(b *brokenOwners) {
		b.yieldRoots(session.RootQuery{DueBefore: time.Now()}, true)
	},
	"orphans anew": func(b *brokenOwners) {
		b.spoilOrphans(func(times, _ int) bool { return times == 1 })
	},
	"large request": func(b *brokenOwners) {
		b.spoilCall(func(r *session.Request) { r.Body = r.Body[:min(len(r.Body), batchBytes-1)] })
	},
	"orphaned": func(b *brokenOwners) { b.yieldRoots(session.RootQuery{DueBefore: time.Now()}, false) },
	"no stampede": func(b *brokenOwners) {
		b.yieldRoots(session.RootQuery{DueBefore: time.Now()}, true)
	},
	"orphans met": func(b *brokenOwners) {
		b.spoilOrphans(func(times, _ int) bool { return times == 1 })
	},
	"owners context": func(b *brokenOwners) {
		b.claim = func(ctx context.Context, root session.Key) (session.Claim, error) {
			return b.inner.Claim(context.WithoutCancel(ctx), root)
		}
	},
	"owners closed": func(b *brokenOwners) {
		b.release = func(ctx context.Context, c session.Claim) error {
			return swap(b.inner.Release(ctx, c), session.ErrClosed, nil)
		}
	},
}

// spoilOrphans has Orphans leave out what f does not want, by how often it would yield the tree and
// how many trees with that.
func (b *brokenOwners) spoilOrphans(f func(times, trees int) bool) {
	b.orphans = func(ctx context.Context) iter.Seq2[session.Key, error] {
		return func(yield func(session.Key, error) bool) {
			times := make(map[session.Key]int)
			for root, err := range b.inner.Orphans(ctx) {
				times[root]++
				if (err != nil || f(times[root], len(times))) && !yield(root, err) {
					return
				}
			}
		}
	}
}

// yieldRoots has Orphans yield the trees of a query at once, also those that it has yielded, or
// once.
func (b *brokenOwners) yieldRoots(q session.RootQuery, again bool) {
	b.orphans = func(ctx context.Context) iter.Seq2[session.Key, error] {
		return func(yield func(session.Key, error) bool) {
			for ctx.Err() == nil {
				for h, err := range b.store.Journal.Roots(ctx, q) {
					if err != nil || !yield(h.Root, nil) {
						return
					}
				}
				for wait := true; wait; wait = !again && ctx.Err() == nil {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
			}
			yield(session.Key{}, ctx.Err())
		}
	}
}

// brokenLanes breaks the rules on lanes.
var brokenLanes = map[string]func(b *brokenOwners){
	"lane limit": func(b *brokenOwners) { b.spoilLaneOf(2, func(*brokenLane) {}) },
	"lane turns": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.ask = func(t session.Ticket) error {
				t.Requester = ""
				return l.Lane.Ask(t)
			}
		})
	},
	"lane class": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.ask = func(t session.Ticket) error {
				t.Class = 0
				return l.Lane.Ask(t)
			}
		})
	},
	"lane withdraw": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.free = func(id string) {
				if id == "1" {
					l.Lane.Free(id)
				}
			}
		})
	},
	"lane lapse": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.ask = func(t session.Ticket) error {
				if first, _ := b.shared.LoadOrStore("lane", b.name); first == b.name {
					return l.Lane.Ask(t)
				}
				return nil
			}
		})
	},
	"lane back": func(b *brokenOwners) {
		var free func()
		b.spoilLane(func(l *brokenLane) {
			if b.name == "a" {
				free = func() { l.Lane.Free("1") }
			}
		})
		last := time.Time{}
		b.spoilLease(func(*session.Lease) {
			if !last.IsZero() && time.Since(last) > 2*time.Second && free != nil {
				free()
			}
			last = time.Now()
		})
	},
	"lane pause": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.pause = func(provider string, _ time.Duration) { l.Lane.Pause(provider, time.Second) }
		})
	},
	"lanes apart": func(b *brokenOwners) {
		b.lane = func(_ string, limit int, u session.LaneUser) session.Lane {
			return b.inner.Lane("all", limit, u)
		}
	},
	"lane again": func(b *brokenOwners) {
		taken := 0
		b.lane = func(name string, limit int, u session.LaneUser) session.Lane {
			taken++
			return b.inner.Lane(fmt.Sprint(name, taken), limit, u)
		}
	},
	"lane anew": func(b *brokenOwners) {
		taken := make(map[string]session.Lane)
		b.lane = func(name string, limit int, u session.LaneUser) session.Lane {
			if taken[name] == nil {
				taken[name] = b.inner.Lane(name, limit, u)
			}
			return taken[name]
		}
	},
	"handle panics": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			handle := m.Handle
			m.Handle = func(ctx context.Context, r session.Request) (answer []byte) {
				defer func() { _ = recover() }()
				return handle(ctx, r)
			}
			return b.inner.Serve(ctx, m)
		}
	},
	"callback panics": func(b *brokenOwners) {
		b.serve = func(ctx context.Context, m session.Member) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			told := m.Lease
			m.Lease = func(l session.Lease) {
				defer cancel()
				told(l)
			}
			return b.inner.Serve(ctx, m)
		}
	},
	"bad ticket": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) {
			l.ask = func(t session.Ticket) error {
				_ = l.Lane.Ask(t)
				return nil
			}
		})
	},
	"lane set limit": func(b *brokenOwners) {
		b.spoilLane(func(l *brokenLane) { l.setLimit = func(int) {} })
	},
}

// Each rule fails for an implementation that breaks it.
func TestBrokenOwners(t *testing.T) {
	batchBytes = 1 << 20
	spoilers := make(map[string]func(*brokenOwners))
	for _, list := range []map[string]func(*brokenOwners){brokenClaims, brokenCalls, brokenLanes} {
		maps.Copy(spoilers, list)
	}
	wantAll(t, ownersRules, spoilers)
	for _, r := range ownersRules {
		t.Run(r.name, func(t *testing.T) {
			err := tryOwners(t, r, brokenEngine(spoilers[r.name]))
			if assert.Error(t, err) {
				t.Log(err)
			}
		})
	}
}

// brokenEngine is a Cluster whose processes are spoiled.
func brokenEngine(spoil func(*brokenOwners)) OwnersEngine {
	e := clusterEngine(0)
	fresh := e.Fresh
	e.Fresh = func(t *testing.T) OwnersFixture {
		f, shared, inner := fresh(t), new(sync.Map), make(map[*session.Store]*session.Store)
		return OwnersFixture{
			Open: func(name string) (*session.Store, error) {
				s, err := f.Open(name)
				if err != nil {
					return nil, fmt.Errorf("open: %w", err)
				}
				o := s.Owners
				b := &brokenOwners{
					o, name, shared, s,
					o.Claim, o.Release, o.Call, o.Serve, o.Orphans, o.Lane,
				}
				spoil(b)
				spoiled := *s
				spoiled.Owners = b
				inner[&spoiled] = s
				return &spoiled, nil
			},
			Cut: func(s *session.Store, cut bool) { f.Cut(inner[s], cut) },
		}
	}
	return e
}
