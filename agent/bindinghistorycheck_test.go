package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A lobbyBinding is a binding from its begin to its end, as the log has it.
type lobbyBinding struct {
	states []lobbyState // the last ones, by the fact that has them
	until  int          // the fact that ends it; 0: none
	end    binding.Unbound
}

// A lobbyState is what a fact says of a binding.
type lobbyState struct {
	fact int // from 1
	of   binding.Binding
}

// at returns the binding after some facts, and whether it was there.
func (b *lobbyBinding) at(facts int) (of binding.Binding, ok bool) {
	for _, s := range b.states {
		if s.fact <= facts {
			of, ok = s.of, b.until == 0 || b.until > facts
		}
	}
	return of, ok
}

func (b *lobbyBinding) target() session.Key { return b.states[0].of.Target }

// bindingFact is a fact of the log of bindings.
type bindingFact struct {
	Kind    string
	Binding *binding.Binding
	Reason  binding.Reason
	ID      string
	At      time.Time
}

// bindings reads the log of bindings: those of each conversation, oldest first, which ends are
// settled, and what was begun.
func (l *lobby) bindings() (
	all map[session.Route][]*lobbyBinding, settled map[string]bool, err error,
) {
	all, settled = make(map[session.Route][]*lobbyBinding), make(map[string]bool)
	l.begun = make(map[string]bool)
	n := 0
	for e, err := range l.h.Entries(session.BindingsRoot()) {
		var f bindingFact
		if err == nil {
			err = readAs(e, &f)
		}
		if err != nil {
			return nil, nil, err
		}
		n++
		if f.Kind == "settled" {
			if settled[f.ID] {
				return nil, nil, fmt.Errorf("fact %d settles the end %s again", n, f.ID)
			}
			settled[f.ID] = true
			continue
		}
		if f.Kind == "begun" { // it binds nothing
			l.begun[f.ID] = true
			l.happened["begun"]++
			continue
		}
		list := all[f.Binding.Conversation]
		var last *lobbyBinding
		if len(list) > 0 && list[len(list)-1].until == 0 {
			last = list[len(list)-1]
		}
		switch same := last != nil && last.target() == f.Binding.Target; {
		case f.Kind == "bound" && last == nil:
			all[f.Binding.Conversation] = append(list, &lobbyBinding{
				states: []lobbyState{{n, *f.Binding}},
			})
		case f.Kind == "bound" && same:
			last.states = append(last.states, lobbyState{n, *f.Binding})
		case f.Kind == "unbound" && same && f.ID != "":
			last.until = n
			last.end = binding.Unbound{ID: f.ID, Binding: *f.Binding, Reason: f.Reason, At: f.At}
		default:
			return nil, nil, fmt.Errorf("fact %d: %s of %v to %s has no place in the log", n, f.Kind,
				f.Binding.Conversation, f.Binding.Target)
		}
	}
	return all, settled, nil
}

// readAs reads an entry.
func readAs(e session.Entry, to any) error {
	data, err := e.Payload.AppendJSON(nil)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	return err
}

// check returns what is wrong at rest.
func (l *lobby) check() error {
	all, settled, err := l.bindings()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.rts[len(l.rts)].Bindings(context.Background())
	if err != nil {
		return err
	}
	err = errors.Join(
		l.checkTrees(all, list), l.checkRouting(all), l.checkAnswers(all),
		l.checkEnds(all, settled), l.checkForks(),
	)
	if err != nil {
		l.show()
	}
	return err
}

// checkForks returns which fork does not begin with what it was to begin with.
func (l *lobby) checkForks() error {
	for key, f := range l.forks {
		if !f.known || !f.shown {
			continue
		}
		l.happened["fork checked"]++
		if !slices.Equal(f.want, f.got) {
			return fmt.Errorf("fork %s began with %q, not with %q", key, f.got, f.want)
		}
	}
	return nil
}

// show has the log of bindings shown with the history.
func (l *lobby) show() {
	n := 0
	for e, err := range l.h.Entries(session.BindingsRoot()) {
		var data []byte
		if err == nil {
			data, err = e.Payload.AppendJSON(nil)
		}
		n++
		l.h.Logf("binding fact %d: %s %v", n, data, err)
	}
}

// checkTrees returns where the table that the Runtime has, the log and the trees do not agree.
func (l *lobby) checkTrees(all map[session.Route][]*lobbyBinding, list []binding.Binding) error {
	table := make(map[session.Route]session.Key)
	for _, of := range list {
		table[of.Conversation] = of.Target
		l.happened["bound at rest"]++
	}
	for at, of := range all {
		last := of[len(of)-1]
		if to, bound := table[at]; bound != (last.until == 0) || bound && to != last.target() {
			return fmt.Errorf("%v is bound to %q, and the log says %q until %d", at, to,
				last.target(), last.until)
		}
	}
	held := make(map[session.Route][]session.Key) // by the trees
	told := make(map[string]session.Key)
	for root, f := range l.treeFacts() {
		if f.err != nil {
			return fmt.Errorf("the tree %s: %w", root, f.err)
		}
		switch to, twice := told[f.ID]; f.Kind {
		case "bound":
			held[f.Route] = append(held[f.Route], f.Run)
		case "unbound":
			held[f.Route] = slices.DeleteFunc(held[f.Route],
				func(k session.Key) bool { return k == f.Run })
		case "posted", "restarted":
			if l.byID[f.ID] != nil && twice {
				return fmt.Errorf("%s was told to %s and to %s", f.ID, to, f.Run)
			}
			told[f.ID] = f.Run
		case "stop_requested":
			l.cut[f.Run] = l.cut[f.Run] || f.Cause == causeStopped
		}
	}
	for at := range all {
		want := []session.Key{table[at]}
		if _, bound := table[at]; !bound {
			want = nil
		}
		if !slices.Equal(held[at], want) {
			return fmt.Errorf("%v is bound to %q, and the trees say %q", at, want, held[at])
		}
		delete(held, at)
	}
	for at, keys := range held {
		if len(keys) > 0 {
			return fmt.Errorf("%v was never bound, and is to %q in the trees", at, keys)
		}
	}
	for _, post := range l.posts {
		if told[post.m.ID] != post.to {
			return fmt.Errorf("%s was told to %q, and %q has it", post.m.ID, post.to, told[post.m.ID])
		}
	}
	return nil
}

// A treeFact is a fact of a tree.
type treeFact struct {
	Kind  string        `json:"kind"`
	Run   session.Key   `json:"run"`
	Route session.Route `json:"route"`
	ID    string        `json:"id"`
	Cause int           `json:"cause"`
	err   error
}

// causeStopped is the cause of an end that a caller, or a requester that has ended, has asked for.
const causeStopped = 3

// treeFacts yields what is on record of each tree.
func (l *lobby) treeFacts() func(yield func(root session.Key, f treeFact) bool) {
	return func(yield func(root session.Key, f treeFact) bool) {
		roots := l.store.Journal.Roots(context.Background(), session.RootQuery{})
		for head, err := range roots {
			if err != nil {
				yield(head.Root, treeFact{err: err})
				return
			}
			if !head.Root.IsValid() { // the log of bindings
				continue
			}
			for e, err := range l.h.Entries(head.Root) {
				f := treeFact{err: err}
				if err == nil {
					f.err = readAs(e, &f)
				}
				if !yield(head.Root, f) {
					return
				}
			}
		}
	}
}

// checkRouting returns which message did not go to the session that was bound when it came.
func (l *lobby) checkRouting(all map[session.Route][]*lobbyBinding) error {
	for i, post := range l.posts {
		taken, own := false, len(all[post.m.Route]) == 0
		for facts := post.began.facts; facts <= post.ended.facts; facts++ {
			free := true
			for _, b := range all[post.m.Route] {
				of, there := b.at(facts)
				if !there {
					continue
				}
				expires, _, ends := l.seen(of, post).Expiry()
				taken = taken || of.Target == post.to && (!ends || expires.After(post.began.at))
				if over, _, ends := of.Expiry(); !ends || over.After(post.ended.at) {
					free = l.refuses(b, post, l.posts[i+1:])
				}
			}
			own = own || free
		}
		switch {
		case taken:
			l.happened["taken by a bound session"]++
		case post.to != post.own:
			return fmt.Errorf("%s went to %s, to which %v was not bound", post.m.ID, post.to,
				post.m.Route)
		case !own:
			return fmt.Errorf("%s went to its own session, and %v was bound", post.m.ID,
				post.m.Route)
		default:
			l.happened["taken by its own session"]++
		}
	}
	return nil
}

// seen returns a binding with the last touch that it can have had when a message came: the log does
// not have each.
func (l *lobby) seen(of binding.Binding, post *lobbyPost) binding.Binding {
	touch := func(at time.Time) {
		if at.After(of.Touched) && !at.After(post.ended.at) {
			of.Touched = at
		}
	}
	for _, x := range l.posts {
		if x.to != of.Target || x.m.Route != of.Conversation {
			continue
		}
		if x != post {
			touch(x.ended.at)
		}
		for _, at := range x.again {
			touch(at)
		}
	}
	for _, x := range l.said {
		if x.reply.From == of.Target && x.reply.Route == of.Conversation {
			touch(x.at)
		}
	}
	return of
}

// refuses reports whether a session does not take a message of a conversation that is bound to it,
// because it is about to go: then the binding ends, and the session takes none of the later ones,
// unless one of another conversation, or of the program, begins another run of it, which keeps what
// is bound.
func (l *lobby) refuses(b *lobbyBinding, post *lobbyPost, later []*lobbyPost) bool {
	next := slices.IndexFunc(later, func(x *lobbyPost) bool {
		return x.to == b.target() && x.ended.facts >= post.began.facts
	})
	if next >= 0 && later[next].m.Route != post.m.Route {
		return true
	}
	if slices.ContainsFunc(l.follows[b.target()], func(at time.Time) bool {
		return !at.Before(post.began.at) && (next < 0 || !at.After(later[next].ended.at))
	}) {
		return true
	}
	return b.until > 0 && !slices.ContainsFunc(later, func(x *lobbyPost) bool {
		return x.m.Route == post.m.Route && x.to == b.target() &&
			x.began.facts >= post.ended.facts && x.ended.facts < b.until &&
			x.began.at.After(post.ended.at)
	})
}

// checkAnswers returns which message was not answered once by the session that has it, and what was
// told in another conversation.
func (l *lobby) checkAnswers(all map[session.Route][]*lobbyBinding) error {
	answers := make(map[string]int)
	for _, s := range l.said {
		ids := slices.Clone(s.reply.InReplyTo)
		for _, token := range tokens.FindAllString(s.reply.Text, -1) {
			ids = append(ids, token[1:len(token)-1])
		}
		for _, id := range ids {
			post := l.byID[id]
			switch {
			case post == nil:
				return fmt.Errorf("reply %s is to %q, which was not written", s.key, id)
			case s.reply.Route != post.m.Route:
				return fmt.Errorf("%s of %v is told in %v: %q", id, post.m.Route, s.reply.Route,
					s.reply.Text)
			case !post.to.IsZero() && s.reply.From != post.to:
				return fmt.Errorf("%s was told to %s, and %s answers", id, post.to, s.reply.From)
			}
		}
		for _, id := range s.reply.InReplyTo {
			answers[id]++
		}
	}
	for _, post := range l.posts {
		switch n := answers[post.m.ID]; {
		case n > 1:
			return fmt.Errorf("%s is answered %d times", post.m.ID, n)
		case n == 1:
			l.happened["answered"]++
		case !l.cut[post.to]: // what has stopped it is told instead
			return fmt.Errorf("%s was told to %s, and is not answered", post.m.ID, post.to)
		}
	}
	return nil
}

// boundAfter reports whether a conversation was bound again after a fact: people are not told any
// more then that they are not heard.
func boundAfter(list []*lobbyBinding, fact int) bool {
	return slices.ContainsFunc(list, func(b *lobbyBinding) bool { return b.states[0].fact > fact })
}

// checkEnds returns which binding that has ended is not settled, or did not say farewell as it
// should.
func (l *lobby) checkEnds(
	all map[session.Route][]*lobbyBinding, settled map[string]bool,
) error {
	said, farewells := make(map[string]int), make(map[string]agent.Farewell)
	places := make(map[session.Route]bool)
	for _, at := range slices.Concat(slices.Collect(maps.Keys(all)), l.chat.Threads()) {
		if places[at] {
			continue
		}
		places[at] = true
		for _, f := range l.chat.Farewells(at) {
			if f.Route != at {
				return fmt.Errorf("farewell %s of %v is said in %v", f.Key, f.Route, at)
			}
			said[f.Key]++
			farewells[f.Key] = f
		}
	}
	for at, list := range all {
		for _, b := range list {
			if b.until == 0 {
				continue
			}
			l.happened["ended: "+b.end.Reason.String()]++
			key, want := "farewell-"+b.end.ID, 1
			if thread.Farewell(b.end) == "" {
				want = 0
			}
			n := said[key]
			delete(said, key)
			switch {
			case !settled[b.end.ID]:
				return fmt.Errorf("the end of %v, %v, is not settled", at, b.end.Reason)
			case n != want && !(n == 0 && (l.gone[at] || boundAfter(list, b.until))):
				return fmt.Errorf("the end of %v, %v, has %d farewells", at, b.end.Reason, n)
			case n == 0:
				l.happened["no farewell"]++
			default:
				l.happened["farewell"]++
			}
		}
	}
	for id := range l.begun {
		if !settled[id] {
			return fmt.Errorf("the begin %s is not settled", id)
		}
	}
	for key, n := range said { // one that did not come about says so in the thread made for it
		f := farewells[key]
		if n > 1 || f.Reason != binding.ReasonBindFailed && f.Reason != binding.ReasonSpawnFailed {
			return fmt.Errorf("the farewell %s of no end is said %d times: %v", key, n, f)
		}
		l.happened["did not come about: "+f.Reason.String()]++
	}
	return nil
}
