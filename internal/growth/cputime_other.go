//go:build !linux

package growth

import "time"

// ProcessorTime returns the time that has passed, because this system does not tell how long a
// thread has had a processor.
func ProcessorTime() time.Duration { return time.Since(started) }

var started = time.Now()
