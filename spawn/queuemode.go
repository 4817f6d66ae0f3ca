package spawn

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A QueueMode says how a session that the caller runs is told of the ends of its runs, and of
// events, when several wait or the session is at work. The zero QueueMode is QueueFollowup. The
// modes are those of the field.
type QueueMode uint8

// The modes. The library hands over and waits; what a mode asks of a session that is at work, the
// loop of the caller does, see [Delivery].Mode.
const (
	// QueueFollowup: one delivery a call, in order. A session at work returns [ErrBusy], and is
	// told by a turn of its own.
	QueueFollowup QueueMode = iota
	// QueueCollect: what waits is handed over in one call, see [Delivery].More, so that one turn
	// reads all of it. A session at work returns ErrBusy.
	QueueCollect
	// QueueSteer: one delivery a call, which the loop puts into the turn under way.
	QueueSteer
	// QueueInterrupt: one delivery a call, for which the loop ends the turn under way.
	QueueInterrupt
)

var queueModes = []string{
	QueueFollowup: "followup", QueueCollect: "collect", QueueSteer: "steer",
	QueueInterrupt: "interrupt",
}

// String returns the word for m, such as "collect".
func (m QueueMode) String() string { return enum.String(queueModes, "QueueMode", m) }

// MarshalText implements encoding.TextMarshaler. It fails for what is not a mode.
func (m QueueMode) MarshalText() ([]byte, error) {
	return enum.Marshal(queueModes, "spawn", "queue mode", m)
}

// UnmarshalText implements encoding.TextUnmarshaler. It takes the words of String in any letter
// case, and leaves m as it is if it fails.
func (m *QueueMode) UnmarshalText(word []byte) error {
	return enum.Unmarshal(queueModes, "spawn", "queue mode", word, m)
}

// MaxCollected is how many deliveries one call has at most, its first included. What waits beyond
// them comes in the next call: nothing is dropped, and nothing is told in brief.
const MaxCollected = 20

// All returns the deliveries of a call of Config.Deliver: d, and those of its More behind it.
func (d Delivery) All() []Delivery {
	first := d
	first.More = nil
	return append([]Delivery{first}, d.More...)
}

// modeOf asks the configuration for the mode of the destination of a call. A function of the caller
// that panics, or returns what is not a mode, has the zero QueueMode.
func (sh *treeShell) modeOf(to tree.Destination) (m QueueMode) {
	if sh.sup.cfg.Queue == nil || to.Reply || to.Hook || to.Sends {
		return QueueFollowup
	}
	defer func() {
		if p := recover(); p != nil {
			m = QueueFollowup
			pe := owner.NewPanic(p)
			sh.sup.log.Error("offshoot: Config.Queue panicked", "session", to.To.String(),
				"panic", fmt.Sprint(pe.Value), "stack", string(pe.Stack))
		}
	}()
	if m = sh.sup.cfg.Queue(to.To); int(m) >= len(queueModes) {
		sh.sup.log.Error("offshoot: Config.Queue returned what is not a mode",
			"session", to.To.String(), "mode", m.String())
		return QueueFollowup
	}
	return m
}

// collect takes what waits behind the call of a sender into the call, and returns it with the whole
// of each result. What cannot be loaded stays in the queue, with all behind it.
func (sh *treeShell) collect(ctx context.Context, p *sender) (more []Delivery) {
	for len(more) < MaxCollected-1 {
		sh.mu.Lock()
		next := p.queue.First()
		if next == nil || !p.collects() {
			sh.mu.Unlock()
			return more
		}
		sh.mu.Unlock()
		if next.out.Completion != nil {
			if err := sh.sup.loadResult(ctx, &next.out.Completion.Run); err != nil {
				return more // it is told when it comes first
			}
		}
		sh.mu.Lock()
		if !p.collects() || p.queue.First() != next {
			sh.mu.Unlock()
			return more
		}
		p.queue.Pop()
		p.more = append(p.more, next.ord)
		sh.mu.Unlock()
		more = append(more, next.out)
	}
	return more
}

// collects reports whether the call of a sender may take more of its queue: its tree has sent both,
// and it has not been told of the outcome. The caller holds the lock of the shell.
func (p *sender) collects() bool {
	return p.call != nil && !p.orphaned && !p.hangs && !p.stopped
}
