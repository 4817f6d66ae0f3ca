package tree

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
)

var top = session.Must(session.MainKey("main"))

// ledger is a journal in memory that keeps facts as bytes.
type ledger struct {
	lines [][]byte
	seen  func(*Fact) // called for every fact, if set
}

// append checks facts against the table of facts and writes them down. A snapshot replaces what
// came before, as a reset of the journal does.
func (l *ledger) append(facts []Fact) error {
	for i := range facts {
		if err := checkFact(&facts[i]); err != nil {
			return err
		}
		if l.seen != nil {
			l.seen(&facts[i])
		}
		data, err := facts[i].AppendJSON(nil)
		if err != nil {
			return err
		}
		if facts[i].Kind == Snapshot {
			l.lines = nil
		}
		l.lines = append(l.lines, data)
	}
	return nil
}

// fold reads everything back.
func (l *ledger) fold(root session.Key, opt *Options) (*Tree, error) {
	t := New(root, opt)
	for i, line := range l.lines {
		f, err := DecodeFact(line)
		if err == nil {
			err = t.Replay(f)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", i, err, line)
		}
	}
	return t, nil
}

// check compares a live tree with what its journal folds to, and with what a snapshot of it would
// be read back as.
func (l *ledger) check(live *Tree) error {
	folded, err := l.fold(live.root.Key(), live.opt)
	if err != nil {
		return err
	}
	if err := sameTree("fold of the journal", live, folded); err != nil {
		return err
	}
	snap := Fact{Kind: Snapshot, FactMore: &FactMore{Image: live.Image()}}
	data, err := snap.AppendJSON(nil)
	if err != nil {
		return err
	}
	f, err := DecodeFact(data)
	if err != nil {
		return err
	}
	restored := New(live.root.Key(), live.opt)
	if err := restored.Replay(f); err != nil {
		return err
	}
	return sameTree("snapshot", live, restored)
}

// sameTree compares what two trees have folded, and what they derive from that.
func sameTree(what string, live, other *Tree) error {
	a, err := json.Marshal(live.Image())
	if err != nil {
		return err
	}
	b, err := json.Marshal(other.Image())
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("%s differs:\n live %s\nother %s", what, a, b)
	}
	if x, y := derived(live), derived(other); x != y {
		return fmt.Errorf("%s derives something else:\n live %s\nother %s", what, x, y)
	}
	return nil
}

// derived prints what is kept beside the folded state.
func derived(t *Tree) string {
	var b bytes.Buffer
	o := &t.outbox
	fmt.Fprintf(&b, "live %d turns %d outbox %d/%d spawned %d;",
		t.live, t.turns, o.pending, o.blocked, len(t.spawned))
	t.Walk(func(r *Run) {
		fmt.Fprintf(&b, " %s live=%d/%d unread=%d/%d/%d held=%d",
			r.Key(), r.live, r.stopping, r.nUser, r.nComp, r.nControl, r.held)
		for i := range r.Past {
			fmt.Fprintf(&b, " %s:%d", r.Past[i].name(), r.Past[i].held)
		}
		b.WriteString(";")
	})
	return b.String()
}
