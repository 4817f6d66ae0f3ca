package target

import (
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Recent is how long ago a run has ended at most that a list shows, unless the viewer says
// otherwise, and MaxRecent how long that may be.
const (
	Recent    = 30 * time.Minute
	MaxRecent = 24 * time.Hour
)

// Window returns how far back a list goes that is asked for with a duration: Recent for none, and
// else from a minute to MaxRecent.
func Window(asked time.Duration) time.Duration {
	if asked <= 0 {
		return Recent
	}
	return min(max(asked, time.Minute), MaxRecent)
}

// IsActive reports whether a run has not ended, or has sub-agents that have not.
func IsActive(r *spawn.RunInfo) bool { return !r.Status.Terminal() || r.Children > 0 }

// List returns the runs as lists show and number them: the active ones, then those that ended not
// longer ago than recent, each the newest first. runs are in the order in which their sessions were
// spawned.
func List(
	runs []spawn.RunInfo, now time.Time, recent time.Duration,
) (list []spawn.RunInfo, active int) {
	var ended []spawn.RunInfo
	for i := range runs {
		r := &runs[i]
		switch {
		case IsActive(r):
			list = append(list, *r)
		case now.Sub(r.Ended) <= recent:
			ended = append(ended, *r)
		}
	}
	newestFirst(list)
	newestFirst(ended)
	return append(list, ended...), len(list)
}

// newestFirst sorts runs: the one that was asked for last is the first. Of those that were asked
// for at the same moment it is the one that was the last before.
func newestFirst(runs []spawn.RunInfo) {
	slices.Reverse(runs)
	slices.SortStableFunc(runs, func(a, b spawn.RunInfo) int {
		return b.Created.Compare(a.Created)
	})
}

// Refs returns the names of runs.
func Refs(runs []spawn.RunInfo) []spawn.RunRef {
	refs := make([]spawn.RunRef, len(runs))
	for i := range runs {
		refs[i] = runs[i].Ref()
	}
	return refs
}

// A Viewer is what a list is shown to: in one session its model, whose Name is empty, or a person.
type Viewer struct {
	Session session.Key
	Name    string
}

// Bounds of a Book.
const (
	shownFor = 30 * time.Minute // how long the numbers of a list are those that were shown
	maxLists = 1000             // that are kept
	maxRuns  = 1000             // of a list
)

// A Book keeps the list that each viewer was shown last, for half an hour. It keeps 1,000 lists at
// most, and of each list the first 1,000 runs; the oldest list makes room for another one. The zero
// Book is ready for use, and safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	lists map[Viewer]shownList // guarded by mu
}

type shownList struct {
	at   time.Time
	runs []spawn.RunRef
}

// Show notes the list that a viewer is shown.
func (b *Book) Show(to Viewer, runs []spawn.RunRef, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists == nil {
		b.lists = map[Viewer]shownList{}
	}
	if _, again := b.lists[to]; !again && len(b.lists) >= maxLists {
		b.makeRoom(now)
	}
	b.lists[to] = shownList{now, slices.Clone(runs[:min(len(runs), maxRuns)])}
}

// makeRoom forgets the lists that are over, or else the oldest one.
func (b *Book) makeRoom(now time.Time) {
	var oldest Viewer
	first := now
	for v, list := range b.lists {
		if now.Sub(list.at) > shownFor {
			delete(b.lists, v)
		} else if !list.at.After(first) {
			oldest, first = v, list.at
		}
	}
	if len(b.lists) >= maxLists {
		delete(b.lists, oldest)
	}
}

// Of returns the list that a viewer was shown last, and false if that was longer than half an hour
// ago, or never.
func (b *Book) Of(v Viewer, now time.Time) (runs []spawn.RunRef, shown bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, ok := b.lists[v]
	if !ok || now.Sub(list.at) > shownFor {
		return nil, false
	}
	return list.runs, true
}

// Number returns the place of a run in the list that a viewer was shown last, from 1, or 0.
func (b *Book) Number(v Viewer, run spawn.RunRef, now time.Time) int {
	runs, _ := b.Of(v, now)
	return 1 + slices.Index(runs, run)
}
