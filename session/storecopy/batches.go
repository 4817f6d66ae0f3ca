package storecopy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/offshoot-sdk/offshoot/session"
)

// batches yields what a journal has under a root, batch by batch. Entries without the ID of a batch
// are one batch each, as they are for those who read a log. The payloads are [session.Raw].
func batches(
	ctx context.Context, j session.Journal, root session.Key,
) iter.Seq2[session.Batch, error] {
	return func(yield func(session.Batch, error) bool) {
		var b session.Batch
		for e, err := range j.Read(ctx, root, 0) {
			if err == nil {
				e, err = encoded(root, e)
			}
			if err != nil {
				yield(session.Batch{}, err)
				return
			}
			if len(b.Entries) > 0 && (e.Batch != b.ID || e.Batch == "") {
				if !yield(b, nil) {
					return
				}
				b = session.Batch{}
			}
			b.ID, b.Entries = e.Batch, append(b.Entries, e)
		}
		if len(b.Entries) > 0 {
			yield(b, nil)
		}
	}
}

// encoded returns an entry with its payload as JSON.
func encoded(root session.Key, e session.Entry) (session.Entry, error) {
	text, err := e.Payload.AppendJSON(nil)
	if err == nil && !json.Valid(text) {
		err = errors.New("it is not JSON")
	}
	if err != nil {
		return e, fmt.Errorf("storecopy: log of %q, entry %d: %w", root, e.Seq, err)
	}
	e.Payload = session.Raw(text)
	return e, nil
}

// keysIn calls f with each key of a session that stands as a text in a batch.
func keysIn(b session.Batch, f func(session.Key)) error {
	for _, e := range b.Entries {
		d := json.NewDecoder(bytes.NewReader(e.Payload.(session.Raw)))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			text, ok := token.(string)
			if !ok || len(text) > session.MaxKeyLen {
				continue
			}
			if key, err := session.Parse(text); err == nil {
				f(key)
			}
		}
	}
	return nil
}

// A memberFinder finds the members of one log. A Store may keep a sum of a member's key alone, so
// that the keys are those which stand in the log and which the Store finds it by.
type memberFinder struct {
	j    session.Journal
	root session.Key
	seen map[session.Key]bool // keys that were looked at; true: members
}

func newMemberFinder(j session.Journal, root session.Key) *memberFinder {
	return &memberFinder{j: j, root: root, seen: make(map[session.Key]bool)}
}

// of returns the members that stand in a batch and did not stand in one before.
func (m *memberFinder) of(ctx context.Context, b session.Batch) (members []session.Key, err error) {
	var fresh []session.Key
	err = keysIn(b, func(key session.Key) {
		if _, ok := m.seen[key]; !ok {
			m.seen[key] = false
			fresh = append(fresh, key)
		}
	})
	for _, key := range fresh {
		if err != nil {
			break
		}
		if m.seen[key], err = leadsTo(ctx, m.j, key, m.root); m.seen[key] {
			members = append(members, key)
		}
	}
	return members, err
}

// leadsTo reports whether a journal finds the log of root by a key.
func leadsTo(ctx context.Context, j session.Journal, key, root session.Key) (bool, error) {
	for h, err := range j.Roots(ctx, session.RootQuery{Member: key}) {
		if err != nil {
			return false, fmt.Errorf("storecopy: looking for the tree of %q: %w", key, err)
		}
		if h.Root == root {
			return true, nil
		}
	}
	return false, nil
}
