package main

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A terminal shows answers as they come. What was shown of a turn before its reply is there is not
// shown again; what comes of it afterwards is not shown.
type terminal struct {
	mu    sync.Mutex
	out   io.Writer
	turn  int    // whose text is on the screen, without the end of its line
	shown string // of that turn
	said  int    // the last turn whose reply was shown
}

// watch shows the deltas of a chat.
func (t *terminal) watch(events iter.Seq2[agent.TreeEvent, error]) {
	for e, err := range events {
		if err != nil {
			t.note("%v", err)
			return
		}
		if e.Kind == agent.EventDelta && e.Run == "" {
			t.delta(e.Turn, e.Text)
		}
	}
}

func (t *terminal) delta(turn int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn <= t.said {
		return
	}
	if turn != t.turn {
		t.endLine()
		t.turn = turn
	}
	t.shown += text
	fmt.Fprint(t.out, text)
}

// reply shows what is not yet there of a reply. The error of the output has the reply tried again.
func (t *terminal) reply(d agent.Delivery) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := d.Reply.Text
	if rest, ok := strings.CutPrefix(text, t.shown); ok && t.turn == d.Reply.Turn {
		text = rest
	} else {
		t.endLine()
	}
	if d.MayRepeat {
		text += "\n(perhaps you have read this already)"
	}
	t.shown = ""
	if !d.Reply.Interim {
		t.said = max(t.said, d.Reply.Turn)
	}
	_, err := fmt.Fprintln(t.out, text)
	return err
}

// note shows what the program itself has to say.
func (t *terminal) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	fmt.Fprintf(t.out, "* "+format+"\n", args...)
}

// endLine ends the line of a turn that is on the screen. The caller holds the lock.
func (t *terminal) endLine() {
	if t.shown != "" {
		fmt.Fprintln(t.out)
	}
	t.shown = ""
}
