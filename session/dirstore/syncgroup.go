package dirstore

import (
	"sync"
	"sync/atomic"
)

// syncsAtATime is how many files a compaction writes and syncs at a time. A file system makes
// several durable at once in the time of one: 500 new files on ext4 took 250 ms one after the
// other, each with a sync of their directory, and 50 ms four at a time with one of it. More at a
// time gained nothing, and an append to the log waited longer behind them.
const syncsAtATime = 4

// severalAtATime calls f for 0 to n-1, so many of them at a time, and returns the error of each
// once all have returned.
func severalAtATime(n, atATime int, f func(i int) error) []error {
	errs := make([]error, n)
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			errs[i] = f(int(i))
		}
	}
	var wg sync.WaitGroup
	for range min(atATime, n) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return errs
}
