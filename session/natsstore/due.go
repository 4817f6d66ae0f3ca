package natsstore

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// A lead leads to a log that is due at a time. It is written before the message of the log that
// says so, and that message names its sequence: what leads to a log and stands before the last
// message of that, and is not what it names, leads to it no more.
//
// Leads are in the stream of logs, because only sequences of one stream can be compared.
type lead struct {
	Root string `json:"root"`
	Sec  int64  `json:"sec"`
	Nsec int    `json:"nsec,omitempty"`
}

func (d lead) at() time.Time { return time.Unix(d.Sec, int64(d.Nsec)).UTC() }

// parseLead returns the lead that a message is, and whether it is one.
func parseLead(m message) (d lead, ok bool) {
	err := json.Unmarshal(m.data, &d)
	return d, err == nil && d.Root != ""
}

// An hour has the leads to the logs that are due within it. What is due before 1970 is so at 0.
type hour int64

// maxHour has all that is due later.
const maxHour = hour(1 << 40)

func newHour(t time.Time) hour {
	return min(max(hour(t.Unix()/int64(time.Hour/time.Second)), 0), maxHour)
}

// token returns the token of h in a subject.
func (h hour) token() string { return strconv.FormatInt(int64(h), 10) }

// parseHour returns the hour of a token, and whether it is one.
func parseHour(token string) (hour, bool) {
	n, err := strconv.ParseInt(token, 10, 64)
	return hour(n), err == nil
}

// lastToken returns the last token of a subject.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
