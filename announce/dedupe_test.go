package announce_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/announce/announcetest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// keyed returns a delivery with a key and nothing else.
func keyed(key string) spawn.Delivery { return spawn.Delivery{Key: key, Attempt: 1, Epoch: 1} }

// repeated returns a delivery that may be a repeat.
func repeated(key string) spawn.Delivery {
	return spawn.Delivery{Key: key, Attempt: 1, Epoch: 2, MayRepeat: true}
}

// onceReceiver is a receiver behind a Dedupe. next returns the journal of the next process.
func onceReceiver(
	t *testing.T, j session.Journal, next func() session.Journal,
) announcetest.Receiver {
	t.Helper()
	var acted announcetest.Recorder
	var failures atomic.Int32
	var of func(j session.Journal) announcetest.Receiver
	of = func(j session.Journal) announcetest.Receiver {
		seen := &announce.Dedupe{Journal: j}
		r := announcetest.Receiver{
			Deliver: seen.Once(func(ctx context.Context, d spawn.Delivery) error {
				if failures.Add(-1) >= 0 {
					return errors.New("no connection")
				}
				failures.Store(0)
				return acted.Deliver(ctx, d)
			}),
			Acted: acted.Len,
			Keys: func() (keys []string) {
				for _, d := range acted.All() {
					keys = append(keys, d.Key)
				}
				return keys
			},
			Fail: func() { failures.Store(1) },

			Collects: true,
		}
		if next != nil {
			r.Restart = func() announcetest.Receiver { return of(next()) }
		}
		return r
	}
	return of(j)
}

// A Dedupe makes a receiver of a function that knows no keys: in memory, over a Journal in memory,
// and over one in a directory.
func TestDedupeIsAReceiver(t *testing.T) {
	t.Run("zero", func(t *testing.T) {
		announcetest.TestDeliver(t, func(t *testing.T) announcetest.Receiver {
			return onceReceiver(t, nil, nil)
		})
	})
	t.Run("memory", func(t *testing.T) {
		announcetest.TestDeliver(t, func(t *testing.T) announcetest.Receiver {
			j := session.NewMemory().Journal
			return onceReceiver(t, j, func() session.Journal { return j })
		})
	})
	t.Run("directory", func(t *testing.T) {
		announcetest.TestDeliver(t, func(t *testing.T) announcetest.Receiver {
			dir, store := t.TempDir(), (*session.Store)(nil)
			open := func() session.Journal {
				if store != nil {
					require.NoError(t, store.Close())
				}
				var err error
				store, err = dirstore.Open(dir)
				require.NoError(t, err)
				return store.Journal
			}
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return onceReceiver(t, open(), open)
		})
	})
}

// Replies, completions and ends of runs share one Dedupe.
func TestDedupeServesSeveralReceivers(t *testing.T) {
	t.Parallel()
	var replies, completions announcetest.Recorder
	var seen announce.Dedupe
	reply, deliver := seen.Once(replies.Deliver), seen.Once(completions.Deliver)
	for range 2 {
		require.NoError(t, reply(t.Context(), keyed("s.1")))
		require.NoError(t, deliver(t.Context(), keyed("s.2")))
	}
	require.Equal(t, 1, replies.Len())
	require.Equal(t, 1, completions.Len())
}

// What is not usable is an error of each delivery, and nothing is acted upon.
func TestDedupeRefuses(t *testing.T) {
	t.Parallel()
	var got announcetest.Recorder
	newer := session.NewMemory().Journal
	_, err := newer.Append(t.Context(), session.DeliveredRoot(), 0, session.Batch{
		Entries: []session.Entry{{Payload: session.Raw(`{"v":2}`)}},
	})
	require.NoError(t, err)
	broken := session.NewMemory().Journal
	_, err = broken.Append(t.Context(), session.DeliveredRoot(), 0, session.Batch{
		Entries: []session.Entry{{Payload: session.Raw(`{"v":1,"groups":[{"keys":["x"]}]}`)}},
	})
	require.NoError(t, err)
	for want, d := range map[string]*announce.Dedupe{
		"Dedupe.Keep is 1m0s: want 0 or at least 1h0m0s":         {Keep: time.Minute},
		"Dedupe.Keep is -1h0m0s: want":                           {Keep: -time.Hour},
		"Dedupe.Max is -1: want 0 to 1000000":                    {Max: -1},
		"Dedupe.Max is 1000001: want":                            {Max: announce.MaxKeys + 1},
		"entry 1: version 2, written by a newer library?":        {Journal: newer},
		`entry 1: announce: "x" does not stand for the key of a`: {Journal: broken},
	} {
		for range 2 {
			require.ErrorContains(t, d.Once(got.Deliver)(t.Context(), keyed("a")), want)
		}
	}
	var seen announce.Dedupe
	require.ErrorContains(t, seen.Once(got.Deliver)(t.Context(), keyed("")), "without a Key")
	require.ErrorContains(t, seen.Once(nil)(t.Context(), keyed("a")), "nil function")
	require.Zero(t, got.Len())
}

// keyJournal is a Journal whose calls fail as a test wants.
type keyJournal struct {
	session.Journal

	mu      sync.Mutex
	appends int
	entries int
	before  func() error // of an append, which then does nothing
	after   func() error // of an append that was made
	read    func() error
}

func (j *keyJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if j.before != nil {
		if err := j.before(); err != nil {
			return 0, err
		}
	}
	last, err := j.Journal.Append(ctx, root, after, b)
	if j.appends++; err == nil && j.after != nil {
		err = j.after()
	}
	if j.entries += len(b.Entries); b.Reset {
		j.entries = len(b.Entries)
	}
	return last, err
}

func (j *keyJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		if j.read != nil {
			if err := j.read(); err != nil {
				yield(session.Entry{}, err)
				return
			}
		}
		j.Journal.Read(ctx, root, after)(yield)
	}
}

// A key that was acted upon and cannot be recorded is an error. The next attempt records it and
// does not act. So it is with a Journal that has recorded it and says that it has not, and with one
// that cannot be read.
func TestDedupeWhoseJournalFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	j := &keyJournal{Journal: session.NewMemory().Journal}
	var got announcetest.Recorder
	seen := &announce.Dedupe{Journal: j}
	deliver := seen.Once(got.Deliver)

	j.read = func() error { return full }
	require.ErrorIs(t, deliver(t.Context(), keyed("a")), full)
	require.Zero(t, got.Len(), "it does not act while it does not know the keys")
	j.read = nil

	j.before = func() error { return full }
	for range 3 {
		require.ErrorIs(t, deliver(t.Context(), repeated("a")), full)
		require.Equal(t, 1, got.Count("a"))
	}
	require.ErrorIs(t, deliver(t.Context(), keyed("b")), full)
	j.before = nil
	require.NoError(t, deliver(t.Context(), repeated("b")))
	require.Equal(t, 1, j.appends, "one append records all that waits for it")
	require.NoError(t, deliver(t.Context(), repeated("a")))
	require.Equal(t, 1, j.appends)

	j.after = func() error { return errors.New("the answer is lost") }
	require.NoError(t, deliver(t.Context(), keyed("c")), "it is found in the log")
	j.after = nil
	require.Empty(t, got.Repeated())

	next := &announce.Dedupe{Journal: j}
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, next.Once(got.Deliver)(t.Context(), repeated(key)))
	}
	require.Equal(t, 3, got.Len())
}

// Two processes with one Journal: what one has recorded the other knows before it acts on a
// delivery that may be a repeat, and neither overwrites what the other has recorded.
func TestDedupeOfTwoProcesses(t *testing.T) {
	t.Parallel()
	j := session.NewMemory().Journal
	var got announcetest.Recorder
	var both []func(context.Context, spawn.Delivery) error
	for range 2 {
		both = append(both, (&announce.Dedupe{Journal: j}).Once(got.Deliver))
	}
	for n := range 20 {
		for i, deliver := range both {
			require.NoError(t, deliver(t.Context(), keyed(fmt.Sprint(i, n))))
		}
	}
	for n := range 20 {
		for i := range both {
			require.NoError(t, both[1-i](t.Context(), repeated(fmt.Sprint(i, n))))
		}
	}
	require.Empty(t, got.Repeated())
	require.Equal(t, 40, got.Len())
}

// A receiver whose time is up and that has acted all the same is not called again: its key is
// recorded although the ctx has ended.
func TestDedupeRecordsWhatCameLate(t *testing.T) {
	t.Parallel()
	j := &keyJournal{Journal: session.NewMemory().Journal}
	calls := 0
	ctx, cancel := context.WithCancel(t.Context())
	late := func(context.Context, spawn.Delivery) error { calls++; cancel(); return nil }
	require.NoError(t, (&announce.Dedupe{Journal: j}).Once(late)(ctx, keyed("a")))
	require.NoError(t, (&announce.Dedupe{Journal: j}).Once(late)(t.Context(), repeated("a")))
	require.Equal(t, 1, calls)
}

// A key whose call panics or ends its goroutine is not remembered, and is free for the next call.
func TestDedupeOfReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	var got announcetest.Recorder
	seen := &announce.Dedupe{Journal: session.NewMemory().Journal}
	for i, bad := range []func(){func() { panic("x") }, runtime.Goexit} {
		key := fmt.Sprint(i)
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }()
			_ = seen.Once(func(context.Context, spawn.Delivery) error { bad(); return nil })(
				t.Context(), keyed(key))
		}()
		<-over
		require.NoError(t, seen.Once(got.Deliver)(t.Context(), repeated(key)))
		require.Equal(t, 1, got.Count(key))
	}
}

// A call waits for another one with its key, and not for one with another key.
func TestDedupeOfOneKeyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got announcetest.Recorder
		seen := &announce.Dedupe{Journal: session.NewMemory().Journal}
		slow := seen.Once(func(ctx context.Context, d spawn.Delivery) error {
			time.Sleep(time.Minute)
			return got.Deliver(ctx, d)
		})
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			for _, key := range []string{"a", "b"} {
				wg.Go(func() { require.NoError(t, slow(t.Context(), keyed(key))) })
			}
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.Sleep(time.Millisecond)
			require.ErrorIs(t, slow(ctx, keyed("a")), context.DeadlineExceeded)
		})
		wg.Wait()
		require.Equal(t, 2, got.Len())
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// One append records the keys of all calls that wait while another append is under way.
func TestDedupeRecordsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &keyJournal{Journal: session.NewMemory().Journal}
		j.before = func() error { time.Sleep(10 * time.Millisecond); return nil }
		deliver := (&announce.Dedupe{Journal: j}).Once(
			func(context.Context, spawn.Delivery) error { return nil })
		var wg sync.WaitGroup
		for n := range 100 {
			wg.Go(func() { require.NoError(t, deliver(t.Context(), keyed(fmt.Sprint(n)))) })
		}
		wg.Wait()
		require.LessOrEqual(t, j.appends, 3)
	})
}

// A key is remembered for Keep of the time in which the receiver runs. The time in which no process
// runs does not count, nor does the number of restarts.
func TestDedupeForgetsByRunningTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := session.NewMemory().Journal
		var got announcetest.Recorder
		life := func() (*announce.Dedupe, func(context.Context, spawn.Delivery) error) {
			seen := &announce.Dedupe{Journal: j, Keep: 24 * time.Hour}
			return seen, seen.Once(got.Deliver)
		}
		_, deliver := life()
		require.NoError(t, deliver(t.Context(), keyed("a")))
		for range 10 {
			time.Sleep(365 * 24 * time.Hour) // the process is not there
			_, deliver = life()
			require.NoError(t, deliver(t.Context(), repeated("a")))
		}
		require.Equal(t, 1, got.Len())

		_, deliver = life()
		require.NoError(t, deliver(t.Context(), repeated("a")))
		time.Sleep(23 * time.Hour)
		require.NoError(t, deliver(t.Context(), keyed("b")))
		seen, deliver := life()
		require.NoError(t, deliver(t.Context(), repeated("a")))
		require.Equal(t, 2, seen.Remembered())
		require.Equal(t, 2, got.Len())
		time.Sleep(2 * time.Hour) // 25 hours since a
		require.NoError(t, deliver(t.Context(), keyed("c")))
		require.NoError(t, deliver(t.Context(), repeated("b")))
		require.Equal(t, 2, seen.Remembered(), "a is forgotten")
		require.NoError(t, deliver(t.Context(), repeated("a")))
		require.Equal(t, 2, got.Count("a"))
	})
}

// Neither the memory nor the log grows with the number of deliveries, also over restarts.
func TestDedupeIsBounded(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	const most = 2000
	j := &keyJournal{Journal: session.NewMemory().Journal}
	var got announcetest.Recorder
	n := 0
	for range 5 {
		seen := &announce.Dedupe{Journal: j, Max: most}
		deliver := seen.Once(got.Deliver)
		for range 4000 {
			n++
			require.NoError(t, deliver(t.Context(), keyed(fmt.Sprint(n))))
		}
		require.Equal(t, most, seen.Remembered())
		require.Less(t, j.entries, 2*most)
		for i := range most {
			require.NoError(t, deliver(t.Context(), repeated(fmt.Sprint(n-i))))
		}
		require.Equal(t, n, got.Len())
	}
}

// BenchmarkDedupe is a delivery behind a Dedupe over a Journal in memory, of 100,000 keys.
func BenchmarkDedupe(b *testing.B) {
	seen := &announce.Dedupe{Journal: session.NewMemory().Journal, Max: 100_000}
	deliver := seen.Once(func(context.Context, spawn.Delivery) error { return nil })
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := deliver(b.Context(), keyed(fmt.Sprint(n))); err != nil {
			b.Fatal(err)
		}
	}
}

// A Dedupe that a configuration holds is used by one test after the other, each in a bubble of its
// own.
func TestDedupeInSeveralBubbles(t *testing.T) {
	var got announcetest.Recorder
	seen := &announce.Dedupe{Journal: session.NewMemory().Journal}
	deliver := seen.Once(got.Deliver)
	for n := range 3 {
		synctest.Test(t, func(t *testing.T) {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() { require.NoError(t, deliver(t.Context(), keyed(fmt.Sprint(n)))) })
				wg.Go(func() { require.NoError(t, deliver(t.Context(), repeated("again"))) })
			}
			wg.Wait()
		})
	}
	require.Equal(t, 4, got.Len())
}
