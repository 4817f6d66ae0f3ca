package agent

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The times and sizes of a relay.
const (
	relayPause = 2500 * time.Millisecond // what was said is passed on after so long
	relayRunes = 220                     // or when there is so much; no more is passed on at once
	relayBytes = 4000                    // of what was said, the last are kept
	relayStall = time.Minute             // a program that is silent so long has stalled
	relayLife  = 6 * time.Hour           // what is said later is not passed on
	// relaySlower is after how many updates the pause doubles: a run has [spawn.MaxMilestones], and
	// some are left for what the Runner reports.
	relaySlower = 10
	relayMost   = spawn.MaxMilestones - 10
)

// A relayState decides what the requester is told of what a program says as it works. It knows no
// clock.
type relayState struct {
	redactor *announce.Redactor

	began   time.Time
	said    string    // what was not passed on, its end
	since   time.Time // when said was empty before; of use while it is not empty
	heard   time.Time // when something was said last
	updates int
	stalled bool
	over    bool
}

// hear takes what the program says.
func (r *relayState) hear(now time.Time, piece string) (tell []string) {
	if r.over || piece == "" {
		return nil
	}
	if r.stalled {
		r.stalled = false
		tell = r.add(tell, "It works again.")
	}
	if r.said == "" {
		r.since = now
	}
	r.heard, r.said = now, r.said+piece
	if cut := len(r.said) - relayBytes; cut > 0 {
		for cut < len(r.said) && !utf8.RuneStart(r.said[cut]) {
			cut++
		}
		r.said = r.said[cut:]
	}
	enough := utf8.RuneCountInString(r.said) >= relayRunes || strings.Contains(r.said, "\n\n")
	if enough && r.updates < relaySlower {
		return r.flush(tell)
	}
	return append(tell, r.tick(now)...)
}

// tick passes on what is due.
func (r *relayState) tick(now time.Time) (tell []string) {
	switch {
	case r.over:
	case now.Sub(r.began) >= relayLife:
		tell = r.add(r.flush(nil), "It has worked for six hours; nothing more of what it says is "+
			"passed on. Its result still comes.")
		r.over = true
	case r.said != "" && now.Sub(r.since) >= r.pause():
		tell = r.flush(nil)
	case !r.stalled && now.Sub(r.heard) >= relayStall:
		r.stalled = true
		tell = r.add(nil, "It has said nothing for a minute. It may be at work, or wait for input.")
	}
	return tell
}

// pause returns how long what was said waits. It grows with what was passed on.
func (r *relayState) pause() time.Duration { return relayPause << min(r.updates/relaySlower, 8) }

// next returns when something is due; zero for never.
func (r *relayState) next() time.Time {
	if r.over {
		return time.Time{}
	}
	due := r.began.Add(relayLife)
	if at := r.since.Add(r.pause()); r.said != "" && at.Before(due) {
		due = at
	}
	if at := r.heard.Add(relayStall); !r.stalled && at.Before(due) {
		due = at
	}
	return due
}

// flush passes on the end of what was said, as people may see it.
func (r *relayState) flush(tell []string) []string {
	shown, visible := announce.Visible(r.said)
	if r.said = ""; !visible {
		return tell
	}
	shown = r.redactor.Redact(text.Line(r.redactor.Redact(shown)))
	if n := utf8.RuneCountInString(shown); n > relayRunes {
		shown = "... " + string([]rune(shown)[n-relayRunes:])
	}
	return r.add(tell, shown)
}

// add adds an update, of which there are not more than a run can report.
func (r *relayState) add(tell []string, update string) []string {
	if r.updates++; r.updates >= relayMost {
		r.over = true
	}
	if text.IsBlank(update) {
		return tell
	}
	return append(tell, update)
}

// A relay passes on to the requester of a run what its program says in one turn: as milestones, of
// which the requester finds the newest.
type relay struct {
	turn *Turn
	ctx  context.Context //nolint:containedctx // of the turn
	end  context.CancelFunc
	done chan struct{} // closed when its goroutine has ended
	wake chan struct{} // has an item when there is something to do

	mu    sync.Mutex
	state relayState
	tell  []string
}

// startRelay starts a relay. The caller calls close.
func startRelay(ctx context.Context, t *Turn) *relay {
	now := time.Now()
	r := &relay{
		turn: t, done: make(chan struct{}), wake: make(chan struct{}, 1),
		state: relayState{redactor: t.rt.redactor, began: now, heard: now},
	}
	r.ctx, r.end = context.WithCancel(ctx)
	go r.run()
	return r
}

// hear takes what the program says. It does not wait.
func (r *relay) hear(piece string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.tell = append(r.tell, r.state.hear(time.Now(), piece)...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be told now, and when to look again.
func (r *relay) take() (tell []string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell = append(r.tell, r.state.tick(time.Now())...)
	r.tell = nil
	return tell, r.state.next()
}

func (r *relay) run() {
	defer close(r.done)
	for {
		tell, next := r.take()
		for _, update := range tell {
			if r.turn.Report(r.ctx, Progress{Text: update, Milestone: true}) != nil {
				return // the turn ends, or has reported as much as it may
			}
		}
		var due <-chan time.Time
		timer := time.NewTimer(time.Until(next))
		if !next.IsZero() {
			due = timer.C
		}
		select {
		case <-r.ctx.Done():
		case <-r.wake:
		case <-due:
		}
		timer.Stop()
		if r.ctx.Err() != nil {
			return
		}
	}
}

// close ends the relay and waits for it. What was not passed on is in the result of the turn.
func (r *relay) close() {
	if r != nil {
		r.end()
		<-r.done
	}
}
