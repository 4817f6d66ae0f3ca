package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// listState returns every tree with its runs and the deliveries that wait, as its journal has them
// at the moment. The error names the trees that cannot be read. The others are listed all the same.
func listState(
	ctx context.Context, o stateOptions, store *session.Store, now time.Time,
) (string, error) {
	var b strings.Builder
	var bad []error
	var sum totals
	if !o.json {
		b.WriteString(openedText(o.dir, now))
	}
	for v, err := range trees(ctx, store) {
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if o.json {
			err = json.NewEncoder(&b).Encode(v)
		} else {
			err = listTree(&b, v, now)
		}
		if err != nil {
			return b.String(), err
		}
		sum.add(v)
	}
	if !o.json {
		b.WriteString(sum.String())
		if len(bad) > 0 {
			more := count(len(bad), "more tree")
			fmt.Fprintf(&b, "%s cannot be read; -verify looks at everything\n", more)
		}
	}
	return b.String(), errors.Join(bad...)
}

// openedText says which process was the last to open the directory, as the lock file tells it, or
// nothing if there is no lock file. It does not say whether the process lives: only a program that
// takes the lock can find that out, and this one must not take it.
func openedText(dir string, now time.Time) string {
	text, err := os.ReadFile(filepath.Join(dir, "lock"))
	var h struct {
		PID   int
		Host  string
		Since time.Time
	}
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID == 0 {
		return ""
	}
	ago := lasted(now.Sub(h.Since))
	return fmt.Sprintf("last opened %s ago by process %d on %q\n\n", ago, h.PID, h.Host)
}

// listTree prints one tree.
func listTree(b *strings.Builder, v spawn.TreeView, now time.Time) error {
	fmt.Fprintf(b, "%s: %v, %s, last entry %s ago by owner %d\n",
		v.Root, v.Status, dueText(v.Due, now), lasted(now.Sub(v.Time)), v.Epoch)
	runs := table{head: []string{"STATE", "ELAPSED", "RUN", "SESSION", "ERROR"}}
	for _, r := range v.Runs {
		elapsed := "-"
		if !r.Started.IsZero() {
			elapsed = lasted(r.Elapsed(now))
		}
		indent := strings.Repeat("  ", max(r.Depth-1, 0))
		runs.add(r.Status.String(), elapsed, indent+nameOf(r), r.Key.String(), short(r.Error))
	}
	if err := runs.print(b); err != nil {
		return err
	}
	if gone := v.Total - len(v.Runs); gone > 0 {
		fmt.Fprintf(b, "  and %s\n", count(gone, "earlier or archived run"))
	}
	for _, u := range v.Unread {
		fmt.Fprintf(b, "  unread by %s: %s\n", u.Session, unreadText(u))
	}
	deliveries := table{
		head: []string{"DELIVERY", "STATE", "FOR", "FAILED", "NEXT", "WHAT", "TO", "ERROR"},
	}
	for _, e := range v.Outbox {
		deliveries.add(delivery(e, now)...)
	}
	if err := deliveries.print(b); err != nil {
		return err
	}
	b.WriteByte('\n')
	return nil
}

// delivery returns the row of an entry of the outbox.
func delivery(e spawn.OutboxEntry, now time.Time) []string {
	what := "a reply"
	if e.Completion != nil {
		what = "the end of " + nameOf(e.Completion.Run)
	}
	state, since, next := "pending", e.Created, "now"
	if wait := e.Due.Sub(now); wait > 0 {
		next = "in " + lasted(wait)
	}
	if e.Event != nil {
		what = "event " + e.Event.ID
	}
	if e.Sent != nil {
		what = "a message of " + e.Sent.From.String()
	}
	switch {
	case !e.Blocked.IsZero():
		state, since, next = "blocked", e.Blocked, "-"
	case e.Busy:
		state = "busy"
	}
	if e.After != "" {
		next = "after " + e.After
	}
	return []string{
		e.Key, state, lasted(now.Sub(since)), count(e.Attempt-1, "time"), next, what,
		e.To.String(), short(e.Error),
	}
}

// totals are the figures of all trees together.
type totals struct {
	trees, runs, archived                  int
	states                                 [spawn.StatusIncomplete + 1]int
	pending, blocked                       int
	messages, steers, unread, news, events int
}

func (t *totals) add(v spawn.TreeView) {
	t.trees++
	t.runs += len(v.Runs)
	t.archived += v.Total - len(v.Runs)
	for _, r := range v.Runs {
		t.states[r.Status]++
	}
	for _, u := range v.Unread {
		t.messages += u.Messages
		t.steers += u.Steers
		t.unread += u.Completions
		t.news += u.Milestones
		t.events += u.Events
	}
	for _, e := range v.Outbox {
		if e.Blocked.IsZero() {
			t.pending++
		} else {
			t.blocked++
		}
	}
}

func (t *totals) String() string {
	var states []string
	for s, n := range t.states {
		if n > 0 {
			states = append(states, fmt.Sprintf("%d %v", n, spawn.Status(s)))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", count(t.trees, "tree"), count(t.runs, "run"))
	if len(states) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(states, ", "))
	}
	if t.archived > 0 {
		fmt.Fprintf(&b, " and %s", count(t.archived, "earlier or archived run"))
	}
	all := spawn.Unread{
		Messages: t.messages, Steers: t.steers, Completions: t.unread, Milestones: t.news,
		Events: t.events,
	}
	fmt.Fprintf(&b, ", unread: %s, deliveries: %d pending, %d blocked\n",
		unreadText(all), t.pending, t.blocked)
	if t.blocked > 0 {
		b.WriteString("while the bot does not run, " +
			"-retry KEY or -dismiss KEY settles a blocked delivery\n")
	}
	return b.String()
}

// unreadText returns what a session has not read, such as "2 messages, 1 completion".
func unreadText(u spawn.Unread) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{u.Messages, "message"},
		{u.Steers, "steer"},
		{u.Completions, "completion"},
		{u.Milestones, "milestone"},
		{u.Events, "event"},
	} {
		if p.n > 0 {
			parts = append(parts, count(p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// count returns a number with a noun, such as "1 tree" or "2 trees".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// dueText returns when a tree or a delivery needs its owner again.
func dueText(due, now time.Time) string {
	switch {
	case due.IsZero():
		return "at rest"
	case !due.After(now):
		return "due now"
	}
	return "due in " + lasted(due.Sub(now))
}

// lasted returns a duration as text. The longer it is, the fewer digits the text has. A negative
// duration, which comes of the clocks of two machines, is zero.
func lasted(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// nameOf returns the label of a run, or its task if it has no label.
func nameOf(r spawn.RunInfo) string {
	if r.Label != "" {
		return short(r.Label)
	}
	return short(r.Task)
}
