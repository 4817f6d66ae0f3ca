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

// Close waits for the appends that were called before it. A sync here takes so long that the
// runtime hands a mutex to the goroutine that has waited for it longest.
func TestCloseWaitsForEarlierAppends(t *testing.T) {
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
	// The last two are too much for one group.
	texts := []string{"under way", strings.Repeat("x", 5<<20), strings.Repeat("y", 5<<20)}
	answers := make(chan error, len(texts)+1)
	go func() { answers <- l.Append(t.Context(), textRecords(texts[0]), ignoreResult) }()
	<-hung
	for _, text := range texts[1:] {
		queued := make(chan struct{})
		ctx := notifyingContext(t.Context(), queued)
		go func() { answers <- l.Append(ctx, textRecords(text), ignoreResult) }()
		<-queued
	}
	go func() { answers <- l.Close() }()
	<-time.After(5 * time.Millisecond)
	close(hang)
	for range len(texts) + 1 {
		require.NoError(t, <-answers)
	}
	d.Hook(nil)
	_, replayed := mustOpen(t, d, "/")
	assert.True(t, slices.Equal(texts, replayed))
}

// notifyingContext returns a context that closes began when Done is called for the first time.
func notifyingContext(ctx context.Context, began chan struct{}) context.Context {
	return &waitContext{Context: ctx, began: began}
}

// A waitContext is the context of notifyingContext.
type waitContext struct {
	context.Context
	began chan struct{}
	once  sync.Once
}

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.began) })
	return c.Context.Done()
}
