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

	// knee is how much longer it may seem to take where the sizes that are compared lie on both
	// sides of a bound: work that remembers what is within a look ahead does more for each byte
	// behind the first 16 KB, and as much for each from there on. Such work takes at most 3.8
	// times as long for a byte of the long text. Work that reads each look ahead anew, which is
	// quadratic up to the bound, takes 8 times as long.
	knee = 2.8
	// behindKnee is how many times as long the texts are that lie behind such a bound.
	behindKnee = 8

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
// The first look is one measurement with a few short texts, and is enough where it finds linear
// work. If the long text seems to take too long, Of measures anew and often. If it still takes a
// little too long, a bound may lie between the two lengths: then Of measures longer texts, and
// what it finds there counts.
//
// Nothing may run beside it. With the race detector it says nothing: see [Measures].
func Of(work func(string), input func(n int) string, size int) float64 {
	const few, often = 4, 12
	grown := between(work, input, size, few, 1)
	if grown > Most {
		grown = between(work, input, size, 1<<Doublings, often)
	}
	if grown > Most && grown <= knee {
		grown = between(work, input, behindKnee*size, 1<<Doublings, often)
	}
	return grown
}

// between compares the work on one long text with that on so many short ones. Of several
// measurements the shortest counts: what disturbs one only makes it longer. Where the short texts
// have as many bytes as the long one, what disturbs all the time disturbs both alike. between goes
// on until it finds linear work or has measured often enough.
func between(
	work func(string), input func(n int) string, size, shorts, often int,
) (grown float64) {
	short, long := input(size), input(size<<Doublings)
	shortTime, longTime := time.Hour, time.Hour
	for range often {
		runtime.GC() // memory that was used before costs less time than new memory
		shortTime = min(shortTime, Time(shorts, work, short)/time.Duration(shorts))
		longTime = min(longTime, Time(1, work, long))
		grown = 2 * math.Pow(float64(longTime>>Doublings)/float64(shortTime), 1.0/Doublings)
		if grown <= Most {
			break
		}
	}
	return grown
}
