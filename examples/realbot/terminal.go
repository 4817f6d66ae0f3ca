package main

import (
	"fmt"
	"io"
	"sync"
)

// A terminal is what the bot writes to: answers as they come, and between them the traces, each on
// a line of its own that begins with {"Name":.
type terminal struct {
	sync.Mutex
	out   io.Writer
	shown string // of the answer, without the end of its line
	held  []byte // traces that wait for the end of the line
}

// Write writes traces, behind the line that has begun.
func (t *terminal) Write(traces []byte) (int, error) {
	t.Lock()
	defer t.Unlock()
	t.held = append(t.held, traces...)
	if t.shown != "" {
		return len(traces), nil
	}
	return len(traces), t.tell()
}

// tell writes the traces that have waited. t is locked.
func (t *terminal) tell() error {
	traces := t.held
	if t.held = nil; len(traces) == 0 {
		return nil
	}
	_, err := t.out.Write(traces)
	return err
}

// flush writes the traces that wait for the end of a line that does not come any more.
func (t *terminal) flush() error {
	t.Lock()
	defer t.Unlock()
	if t.shown != "" && len(t.held) > 0 {
		fmt.Fprintln(t.out)
		t.shown = ""
	}
	return t.tell()
}
