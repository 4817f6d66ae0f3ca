package command

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxLimit is the longest limit of a binding.
const maxLimit = 1_000_000 * time.Hour

// durationUnits are the units of a duration, the longer names first.
var durationUnits = []struct {
	name string
	unit time.Duration
}{
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
}

// Why a text is not a duration.
const (
	noDuration = "it is not a duration, such as 90m, 24h, 1h30m, or a number of hours"
	tooLong    = "it is longer than 1,000,000 hours"
)

// isOff reports whether a word means that there is no limit.
func isOff(word string) bool {
	switch strings.ToLower(word) {
	case "off", "disable", "disabled", "none", "0":
		return true
	}
	return false
}

// parseDuration returns the duration that a person writes: numbers with the units ms, s, m, h and
// d, one behind the other, or one number alone, which is of hours. Numbers may have decimals. Fault
// says what is wrong with it.
func parseDuration(s string) (d time.Duration, fault string) {
	rest := strings.ToLower(s)
	if rest == "" {
		return 0, noDuration
	}
	sum := 0.0
	for rest != "" {
		n := 0
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.') {
			n++
		}
		value, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, noDuration
		}
		whole := n == len(s)
		rest = rest[n:]
		unit := time.Hour
		if !whole {
			found := false
			for _, u := range durationUnits {
				if rest, found = strings.CutPrefix(rest, u.name); found {
					unit = u.unit
					break
				}
			}
			if !found {
				return 0, noDuration
			}
		}
		if sum += value * float64(unit); sum > float64(maxLimit) {
			return 0, tooLong
		}
	}
	d = time.Duration(sum).Round(time.Millisecond)
	if d == 0 && sum > 0 {
		return 0, noDuration // it would mean that there is no limit
	}
	return d, ""
}

// formatLimit returns a limit as people read and write it, such as "1h30m".
func formatLimit(d time.Duration) string {
	if d <= 0 {
		return "off"
	}
	var b strings.Builder
	for _, name := range []string{"h", "m", "s", "ms"} {
		for _, u := range durationUnits {
			if u.name == name && d >= u.unit {
				b.WriteString(strconv.FormatInt(int64(d/u.unit), 10) + u.name)
				d %= u.unit
			}
		}
	}
	return cmp.Or(b.String(), "1ms")
}
