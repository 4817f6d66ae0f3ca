package tree

import (
	"cmp"
	"slices"

	"github.com/offshoot-sdk/offshoot/session"
)

// An Image is the whole folded state of a tree at one moment: what a Snapshot carries. Two trees are equal if their images
// are.
type Image struct {
	Epoch   uint64     `json:"epoch"`
	Total   uint32     `json:"total"`
	NextOut uint32     `json:"nextOut,omitempty"`
	Runs    []RunState `json:"runs"` // parents before children, siblings oldest first; the top-level session is the first
	Outbox  []Entry    `json:"outbox,omitempty"`
	Spawned []Spawned  `json:"spawned,omitempty"`
	Posts   []SeenPost `json:"posts,omitempty"`
}

// Spawned is a spawn key that is still recognised after its run has left the tree.
type Spawned struct {
	Parent session.Key `json:"parent"`
	Key    string      `json:"key"`
	Run    session.Key `json:"run"`
	ID     string      `json:"id"`
	Until  int64       `json:"until"`
}

// SeenPost is the id of a message that has been posted.
type SeenPost struct {
	To    session.Key `json:"to"`
	ID    string      `json:"id"`
	Until int64       `json:"until"`
}

// Image returns the state of the tree. It shares with the tree only what is never changed.
func (t *Tree) Image() *Image {
	m := &Image{Epoch: t.epoch, Total: t.total, NextOut: t.outbox.nextOrd, Runs: make([]RunState, 0, len(t.runs))}
	t.Walk(func(r *Run) {
		s := r.RunState
		s.Inbox = slices.Clone(s.Inbox)
		if s.Join != nil {
			j := *s.Join
			s.Join = &j
		}
		if s.Open != nil {
			o := *s.Open
			s.Open = &o
		}
		if r.IsRoot() {
			spec := *s.Spec // its session id is set once, but after it was made
			s.Spec = &spec
		}
		m.Runs = append(m.Runs, s)
	})
	t.Outbox(func(e *Entry) {
		c := *e
		c.inFlight, c.mayRepeat = false, false
		m.Outbox = append(m.Outbox, c)
	})
	for k, ref := range t.spawned {
		if ref.Until > 0 {
			m.Spawned = append(m.Spawned, Spawned{k.parent, k.key, ref.Run, ref.ID, ref.Until})
		}
	}
	slices.SortFunc(m.Spawned, func(a, b Spawned) int {
		return cmp.Or(compareKeys(a.Parent, b.Parent), cmp.Compare(a.Key, b.Key))
	})
	for k, until := range t.posts {
		m.Posts = append(m.Posts, SeenPost{k.to, k.id, until})
	}
	slices.SortFunc(m.Posts, func(a, b SeenPost) int { return cmp.Or(compareKeys(a.To, b.To), cmp.Compare(a.ID, b.ID)) })
	return m
}

// applySnapshot forgets what is no longer recognised and, while a journal is read, takes the image over. The tree that writes
// a snapshot fills the image in.
func (t *Tree) applySnapshot(f *Fact) error {
	t.sinceSnapshot = 0
	if f.Image != nil {
		return t.restore(f)
	}
	t.forgetExpired(f.At)
	f.Image = t.Image()
	return nil
}

func (t *Tree) forgetExpired(now int64) {
	for k, ref := range t.spawned {
		if ref.Until > 0 && ref.Until <= now {
			delete(t.spawned, k)
		}
	}
	for k, until := range t.posts {
		if until <= now {
			delete(t.posts, k)
		}
	}
}

// restore makes the tree what an image says. What is derived is derived anew.
func (t *Tree) restore(f *Fact) error {
	m := f.Image
	if t.epoch != 0 || len(t.runs) != 1 {
		return &CorruptError{f.Kind, t.root.Key(), "a snapshot that is not the first fact"}
	}
	t.epoch, t.total, t.outbox.nextOrd = m.Epoch, m.Total, m.NextOut
	if len(m.Runs) == 0 || m.Runs[0].Spec == nil || m.Runs[0].Spec.Key != t.root.Key() {
		return &CorruptError{f.Kind, t.root.Key(), "the top-level session is not the first in the image"}
	}
	for i := range m.Runs {
		s := m.Runs[i]
		s.Inbox = slices.Clone(s.Inbox)
		if s.Join != nil {
			j := *s.Join
			s.Join = &j
		}
		if s.Open != nil {
			o := *s.Open
			s.Open = &o
		}
		if err := t.restoreRun(s, i == 0); err != nil {
			return err
		}
	}
	for i := range m.Outbox {
		e := m.Outbox[i]
		t.outbox.entries[e.Ord] = &e
		t.outbox.count(&e, 1)
		if !e.Reply {
			t.holdCompletion(e.Run)
		}
		if e.Blocked == 0 {
			t.timers.push(timer{at: max(e.Due, 1), ord: e.Ord})
		}
	}
	for _, s := range m.Spawned {
		t.spawned[spawnKey{s.Parent, s.Key}] = spawnRef{s.Run, s.ID, s.Until}
	}
	for _, s := range m.Posts {
		t.posts[postKey{s.To, s.ID}] = s.Until
	}
	t.Walk(func(r *Run) {
		r.recount()
		if r.Open != nil {
			r.consumeOpen()
		}
		for i := range r.Inbox {
			if in := &r.Inbox[i]; in.Class == Completion {
				t.holdCompletion(in.From)
			}
		}
	})
	t.Walk(t.armTimer)
	return nil
}

func (t *Tree) restoreRun(s RunState, top bool) error {
	switch {
	case s.Spec == nil || s.Spec.Grant == nil:
		return &CorruptError{Snapshot, t.root.Key(), "a run without its specification"}
	case s.State >= states || s.Cause >= causes:
		return &CorruptError{Snapshot, s.Spec.Key, "a state or a cause that there is not"}
	}
	r := &Run{RunState: s}
	if top {
		spec := *s.Spec
		r.Spec = &spec
		t.root, t.runs[s.Spec.Key] = r, r
	} else {
		p := t.runs[s.Spec.Parent]
		if p == nil || t.runs[s.Spec.Key] != nil {
			return &CorruptError{Snapshot, s.Spec.Key, "its requester is not in the image, or it is there twice"}
		}
		p.addChild(r)
		t.runs[s.Spec.Key] = r
		if !s.State.Terminal() {
			p.live++
			t.live++
		}
		if s.Spec.SpawnKey != "" {
			t.spawned[spawnKey{s.Spec.Parent, s.Spec.SpawnKey}] = spawnRef{Run: s.Spec.Key, ID: s.Spec.ID}
		}
	}
	if s.Open != nil {
		t.turns++
	}
	return nil
}

// consumeOpen takes the inputs of the turn under way off the counts.
func (r *Run) consumeOpen() {
	through := r.Open.Through
	r.Open.Through = r.Consumed
	r.consume(through)
	r.Open.Through = through
}
