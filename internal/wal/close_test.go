package wal_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
)

// Close waits for those who came before it, also if each sync takes so long that a mutex is handed to whoever has waited for it.
func TestCloseWaitsForWhoCameBefore(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	hang, hung := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			once.Do(func() { close(hung) })
			<-hang
			<-time.After(5 * time.Millisecond)
		}
		return nil
	})
	texts := []string{"under way", strings.Repeat("x", 5<<20), strings.Repeat("y", 5<<20)} // too much for one group
	answers := make(chan error, len(texts)+1)
	go func() { answers <- l.Append(t.Context(), records(texts[0]), ignore) }()
	<-hung
	for _, text := range texts[1:] {
		queued := make(chan struct{})
		go func() { answers <- l.Append(waited(t.Context(), queued), records(text), ignore) }()
		<-queued
	}
	go func() { answers <- l.Close() }()
	<-time.After(5 * time.Millisecond)
	close(hang)
	for range len(texts) + 1 {
		require.NoError(t, <-answers)
	}
	d.Hook(nil)
	_, there := mustOpen(t, d, "/")
	assert.True(t, slices.Equal(texts, there))
}

// waited returns a context that says when somebody begins to wait for its end.
func waited(ctx context.Context, began chan struct{}) context.Context {
	return &waitedFor{Context: ctx, began: began}
}

type waitedFor struct {
	context.Context
	began chan struct{}
	once  sync.Once
}

func (c *waitedFor) Done() <-chan struct{} {
	c.once.Do(func() { close(c.began) })
	return c.Context.Done()
}
