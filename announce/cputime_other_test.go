//go:build !linux

package announce_test

import "time"

// processorTime returns the time that has passed, because this system does not tell how long a
// thread has had a processor.
func processorTime() time.Duration { return time.Since(started) }

var started = time.Now()
