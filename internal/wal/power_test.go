package wal_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// A powerRun is a program that appends and rewrites, and records what was acknowledged.
type powerRun struct {
	t     *testing.T
	l     *wal.Log
	acked []string // the payloads that must be replayed
	maybe []string // the payloads that may follow them
}

func (p *powerRun) append(texts ...string) error {
	p.maybe = texts
	err := p.l.Append(p.t.Context(), textRecords(texts...), ignoreResult)
	if err == nil {
		p.acked = append(p.acked, texts...)
		p.maybe = nil
	}
	return err
}

func (p *powerRun) rewrite() error {
	keep := p.acked
	r := keepTexts(keep...)
	return p.l.Rewrite(r)
}

// run uses every method of a Log.
func (p *powerRun) run(d *disktest.Disk) (err error) {
	for life := range 2 {
		var texts []string
		if p.l, texts, err = openLog(d, "/"); err != nil {
			return err
		}
		assert.Equal(p.t, p.acked, append([]string(nil), texts...))
		for i := range 3 {
			id := fmt.Sprintf("%d-%d ", life, i)
			if err := p.append(id+"a", id+strings.Repeat("long ", 250)); err != nil {
				return err
			}
			if i == 1 {
				if err := p.rewrite(); err != nil {
					return err
				}
			}
		}
		if err := p.l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// verify fails unless a disk has all acknowledged payloads, and then perhaps the payloads that were
// under way, whole and in their order.
func (p *powerRun) verify(d *disktest.Disk, when string) {
	p.t.Helper()
	l, texts, err := openLog(d, "/")
	require.NoError(p.t, err, when)
	require.GreaterOrEqual(p.t, len(texts), len(p.acked), when)
	require.Equal(p.t, p.acked, append([]string(nil), texts[:len(p.acked)]...), when)
	rest := texts[len(p.acked):]
	require.LessOrEqual(p.t, len(rest), len(p.maybe), when)
	for i := range rest {
		require.Equal(p.t, p.maybe[i], rest[i], when)
	}
	// The log goes on from there, and loses power again right after an append.
	require.NoError(p.t, l.Append(p.t.Context(), textRecords("on"), ignoreResult), when)
	_, again, err := openLog(d.Crash(func(int) bool { return false }), "/")
	require.NoError(p.t, err, when)
	require.Equal(p.t, append(texts, "on"), again, when)
}

// runApart calls f in a goroutine of its own and waits for it. A failing test ends its goroutine,
// and that of a hook belongs to the log.
func runApart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// The power is lost before every single operation. The test loses the unsynced pieces in every way
// that is allowed.
func TestPowerLossKeepsAcknowledgedFrames(t *testing.T) {
	d := disktest.New()
	p := &powerRun{t: t}
	rng := rand.New(rand.NewPCG(1, 2))
	losses := 0
	d.Hook(func(op disktest.Op) error {
		if op.Changes() {
			for keep := range d.Losses(rng, 64) {
				losses++
				when := fmt.Sprintf("loss %d, before %s %s", losses, op.Kind, op.Name)
				runApart(func() { p.verify(d.Crash(keep), when) })
				if t.Failed() {
					return errors.New("enough")
				}
			}
		}
		return nil
	})
	require.NoError(t, p.run(d))
	assert.Greater(t, losses, 200)
}

// Every single operation fails once, before or after it has done its work, and then the power is
// lost.
func TestFaultThenPowerLossKeepsAcknowledgedFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, fault := range []error{
		syscall.EIO,
		fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO),
		&disktest.ShortError{Written: 700, Err: syscall.ENOSPC},
	} {
		for at := 1; ; at++ {
			d := disktest.New()
			p := &powerRun{t: t}
			ops := 0
			var what string
			d.Hook(func(op disktest.Op) error {
				if !op.Changes() {
					return nil
				}
				if ops++; ops != at {
					return nil
				}
				what = fmt.Sprintf("fault %v at operation %d, %s %s", fault, at, op.Kind, op.Name)
				return fault
			})
			err := p.run(d)
			if ops < at {
				require.NoError(t, err)
				break
			}
			d.Hook(nil)
			for keep := range d.Losses(rng, 16) {
				p.verify(d.Crash(keep), what)
			}
			p.verify(d, what) // without a power loss
		}
	}
}

// Rewrites run one after the other beside appends. Views read their frames, and nothing is lost.
func TestRewriteBesideAppends(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	const writers, each = 8, 60
	var (
		mu    sync.Mutex // guards spans
		spans = make(map[string]wal.Span)
		wg    sync.WaitGroup
	)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d/%d", w, i)
				err := l.Append(t.Context(), textRecords(text), func(at []wal.Span, err error) {
					mu.Lock()
					defer mu.Unlock()
					spans[text] = at[0]
				})
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	for range 20 {
		rewriteAll(t, l, &mu, spans)
	}
	wg.Wait()
	v, err := l.View()
	require.NoError(t, err)
	require.Len(t, spans, writers*each)
	for text, at := range spans {
		_, payload, err := v.Read(at)
		require.NoError(t, err)
		require.Equal(t, text, string(payload))
	}
	require.NoError(t, v.Close())
	require.NoError(t, l.Close())
	_, texts := mustOpen(t, d.Crash(func(int) bool { return false }), "/")
	assert.Len(t, texts, writers*each)
	entries, err := d.ReadDir("/")
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left of the logs before")
}

// rewriteAll rewrites a log and keeps all frames.
func rewriteAll(t *testing.T, l *wal.Log, mu *sync.Mutex, spans map[string]wal.Span) {
	t.Helper()
	before, after := make(map[string]wal.Span), make(map[string]wal.Span)
	require.NoError(t, l.Rewrite(wal.Rewriter{
		Begin: func() {
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(before, spans)
		},
		Copy: func(old *wal.View, w *wal.Writer) error {
			for text, at := range before {
				k, payload, err := old.Read(at)
				if err != nil {
					return err
				}
				if after[text], err = w.Append(k, payload); err != nil {
					return err
				}
			}
			return nil
		},
		Switch: func(from, delta int64, swap func()) {
			mu.Lock()
			defer mu.Unlock()
			swap()
			for text, at := range spans {
				if at.Off >= from {
					at.Off += delta
				} else {
					at = after[text]
				}
				spans[text] = at
			}
		},
	}))
}

// A View that was made before a rewrite reads the old file. The file is removed with the View.
func TestViewOutlivesRewriteAndClose(t *testing.T) {
	d := disktest.New()
	l, _ := mustOpen(t, d, "/")
	var at wal.Span
	keep := func(spans []wal.Span, _ error) { at = spans[0] }
	require.NoError(t, l.Append(t.Context(), textRecords("old"), keep))
	v, err := l.View()
	require.NoError(t, err)
	require.NoError(t, l.Rewrite(keepTexts("longer than before")))
	w, err := l.View()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, payload, err := v.Read(at)
	require.NoError(t, err)
	assert.Equal(t, "old", string(payload))
	_, _, err = w.Read(at)
	require.Error(t, err)
	require.NoError(t, v.Close())
	require.NoError(t, v.Close())
	_, err = d.Lstat("/00000001.wal")
	require.Error(t, err)
	require.NoError(t, w.Close())
	_, _, err = w.Read(at)
	require.Error(t, err)
}

// The power is lost while a group is under way. Each append of the group is replayed as a whole or
// not at all, and only together with all appends before it.
func TestPowerLossKeepsAppendsOfGroupWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		l, _ := mustOpen(t, d, "/")
		appendTexts(t, l, "before")
		hang := make(chan error)
		d.Hook(hangingSync(hang))
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, l.Append(t.Context(), textRecords("first"), ignoreResult)) })
		synctest.Wait()
		before := d.Crash(func(int) bool { return true })
		for i := range 6 {
			wg.Go(func() {
				text := fmt.Sprint(i, strings.Repeat(" long", 60))
				assert.NoError(t, l.Append(t.Context(), textRecords(text, text), ignoreResult))
			})
		}
		synctest.Wait() // until all six wait for the sync before theirs
		losses := 0
		rng := rand.New(rand.NewPCG(5, 6))
		d.Hook(func(op disktest.Op) error {
			if op.Kind != disktest.OpSync {
				return nil
			}
			for keep := range d.Losses(rng, 300) {
				losses++
				runApart(func() { verifyUnits(t, d.Crash(keep)) })
			}
			return nil
		})
		close(hang)
		wg.Wait()
		d.Hook(nil)
		require.NoError(t, l.Close())
		verifyUnits(t, before)
		assert.Equal(t, 300, losses, "the six share one sync")
		_, texts := mustOpen(t, d, "/")
		assert.Len(t, texts, 14)
	})
}

// verifyUnits fails unless a disk has whole appends only.
func verifyUnits(t *testing.T, d *disktest.Disk) {
	t.Helper()
	_, texts := mustOpen(t, d, "/")
	require.NotEmpty(t, texts)
	require.Equal(t, "before", texts[0])
	rest := texts[1:]
	if len(rest) > 0 {
		require.Equal(t, "first", rest[0])
		rest = rest[1:]
	}
	require.Zero(t, len(rest)%2)
	for i := 0; i < len(rest); i += 2 {
		require.Equal(t, rest[i], rest[i+1])
	}
}
