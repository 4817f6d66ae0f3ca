package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
)

// bareGoroutines have a goroutine, an id and an entry of a map for each child, and nothing else.
type bareGoroutines struct {
	mu      sync.Mutex
	running map[string]bool
}

func openGoroutines(context.Context, string, int) (job, error) {
	return &bareGoroutines{running: make(map[string]bool)}, nil
}

func (g *bareGoroutines) run(_ context.Context, children, atATime int) error {
	done := make(chan string, atATime)
	for n := 0; n < children; n += atATime {
		for range min(atATime, children-n) {
			id := session.NewID()
			g.mu.Lock()
			g.running[id] = true
			g.mu.Unlock()
			go func() { done <- id }()
		}
		for range min(atATime, children-n) {
			id := <-done
			g.mu.Lock()
			delete(g.running, id)
			g.mu.Unlock()
		}
	}
	return nil
}

func (*bareGoroutines) close(context.Context) error { return nil }

const (
	// commitsOfAChild is how often a child is made durable: that it is to run, what came of it,
	// and that it was told.
	commitsOfAChild = 3
	// commitBytes is how long each of these records is, about as long as a batch of the journal.
	commitBytes = 512
)

// groupCommit makes the records of its children durable, those of all requesters that wait
// together, and does nothing else.
type groupCommit struct {
	file       disk.File
	group      *disktest.GroupCommit
	requesters int
}

func openGroupCommit(_ context.Context, dir string, requesters int) (job, error) {
	f, err := disk.OS().OpenFile(filepath.Join(dir, "raw"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return &groupCommit{f, disktest.NewGroupCommit(f), requesters}, nil
}

func (g *groupCommit) run(_ context.Context, children, _ int) error {
	record := make([]byte, commitBytes)
	return together(g.requesters, func(int) error {
		for range children * commitsOfAChild {
			if err := g.group.Write(record); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *groupCommit) close(context.Context) error { return g.file.Close() }
