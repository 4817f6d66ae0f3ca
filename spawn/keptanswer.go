package spawn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A message from a tree of another process arrives in one request, and its sender asks for the
// answer in the next one, when it knows that the message is there. A session may have answered by
// then, and people may have the reply. So the process that has the session keeps the answer for a
// moment.

// keptFor is how long an answer is kept for the process that asks for it, from the arrival of the
// message on, and maxKept is for how many messages of a tree.
const (
	keptFor = time.Minute
	maxKept = 16
)

// A keptAnswer is what waits for the answer to a message in place of its sender.
type keptAnswer struct {
	answerWaiter
	until time.Time
}

// postKept is doHere for a message whose sender asks for the answer later.
func (s *Supervisor) postKept(
	ctx context.Context, post *tree.Post, read func(*tree.Tree, tree.Reply),
) error {
	for {
		sh := s.shellOf(post.To)
		err := sh.owner.Do(ctx, post, func(t *tree.Tree, r tree.Reply) {
			read(t, r)
			if !r.Existing {
				sh.keepAnswer(post, t, r)
			}
		})
		if !errors.Is(err, owner.ErrRetired) {
			return err
		}
	}
}

// keepAnswer keeps the answer to a message that a batch has just recorded.
func (sh *treeShell) keepAnswer(post *tree.Post, t *tree.Tree, r tree.Reply) {
	now := time.Now()
	k := &keptAnswer{until: now.Add(keptFor)}
	k.run, k.of, k.ready = post.To, post, make(chan struct{})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.kept = slices.DeleteFunc(sh.kept, func(k *keptAnswer) bool { return now.After(k.until) })
	if over := len(sh.kept) - maxKept + 1; over > 0 {
		sh.kept = slices.Delete(sh.kept, 0, over)
	}
	sh.kept = append(sh.kept, k)
	k.begin(t, r)
}

// takeKept gives w the answer to its message, if there is one that was kept, and reports whether
// there is. The caller holds the lock.
func (sh *treeShell) takeKept(w *answerWaiter) bool {
	i := slices.IndexFunc(sh.kept, func(k *keptAnswer) bool {
		return k.of.To == w.of.To && k.of.From == w.of.From && k.of.ID == w.of.ID
	})
	if i < 0 || sh.kept[i].ready != nil || w.ready == nil {
		return false
	}
	w.reply, w.err = sh.kept[i].reply, sh.kept[i].err
	close(w.ready)
	w.ready = nil
	return true
}
