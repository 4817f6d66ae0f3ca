package growth

import (
	"math"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// Doublings is how often Of doubles an input.
	Doublings = 4
	// Most is how much longer the work on a text of twice the length may take. Linear work takes
	// about 2 times as long, quadratic work about 4 times.
	Most = 2.6

	// leastTime is the time below which a measurement says nothing.
	leastTime = 100 * time.Microsecond
)

// Time returns how much of a processor work takes on a text, so many times and without collections
// of garbage. It stays on one thread, so that work of others does not count.
func Time(times int, work func(string), text string) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	began := ProcessorTime()
	for range times {
		work(text)
	}
	return max(ProcessorTime()-began, leastTime)
}

// Of returns by how much the time of work grows for each of four doublings of its input, which has
// size bytes at first. It is the mean of the four.
//
// Of compares the work on one long text with that on four short ones, which have a quarter of its
// bytes. Of several measurements the shortest counts: what disturbs one only makes it longer. The
// first is enough where it finds linear work. If the long text seems to take too long, Of goes on
// until it does not or until it has measured often enough.
//
// Nothing may run beside it. With the race detector it says nothing: see [Measures].
func Of(work func(string), input func(n int) string, size int) float64 {
	const atMost, shorts = 12, 4
	short, long := input(size), input(size<<Doublings)
	shortTime, longTime := time.Hour, time.Hour
	grown := 0.0
	for range atMost {
		runtime.GC() // memory that was used before costs less time than new memory
		shortTime = min(shortTime, Time(shorts, work, short)/shorts)
		longTime = min(longTime, Time(1, work, long))
		grown = 2 * math.Pow(float64(longTime>>Doublings)/float64(shortTime), 1.0/Doublings)
		if grown <= Most {
			break
		}
	}
	return grown
}
