package remote

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Fault is why one of the Options of a Store cannot be used. It has the form of the OptionError
// of each engine.
type Fault struct {
	Field  string
	Value  any
	Reason string
}

// CheckProcess returns the lease of a process, which is that of session.DefaultLease unless it is
// set, or why the options cannot be used. A process without a name has none. most is the longest
// lease.
func CheckProcess(process string, lease, most, timeout time.Duration) (time.Duration, *Fault) {
	switch {
	case timeout < time.Second:
		return 0, &Fault{"Timeout", timeout, "it must be at least one second"}
	case process == "" && lease != 0:
		return 0, &Fault{"Lease", lease, "it is for a Process, and there is none"}
	case process == "":
		return 0, nil
	case lease == 0:
		lease = session.DefaultLease
	}
	if reason := processFault(process); reason != "" {
		return 0, &Fault{"Process", fmt.Sprintf("%.80q", process), reason}
	}
	if lease < time.Second || lease > most {
		return 0, &Fault{"Lease", lease, fmt.Sprintf("it must be 1s to %v", most)}
	}
	return lease, nil
}

// processFault returns why s cannot be the name of a process, or "".
func processFault(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("it has %d bytes, at most %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return "it is not UTF-8"
	}
	if strings.TrimSpace(s) == "" {
		return "it is blank"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Sprintf("it has the character %q", r)
		}
	}
	return ""
}
