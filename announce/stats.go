package announce

import (
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// Stats is what a run took, and where its traces are. A field that is not known is zero. The zero
// Stats is valid and knows nothing.
type Stats struct {
	Runtime    time.Duration `json:"runtime,omitempty"` // from the first turn to the end; 0 if not started
	Usage      session.Usage `json:"usage,omitzero"`    // of all turns; zero if unknown
	Key        session.Key   `json:"key,omitzero"`
	SessionID  string        `json:"sessionId,omitempty"`
	Transcript string        `json:"transcript,omitempty"` // the path of a file, if there is one
	Missed     int           `json:"missed,omitempty"`     // steers that the run has not read
}

// String returns the line for the requester's model. Shown here on two lines, it is
//
//	Stats: runtime 5m12s • tokens 1.0k (in 12 / out 1.0k) • est $0.12
//	 • sessionKey K • sessionId S • transcript P • steersMissed 1
//
// A runtime or a count of tokens that is not known is "n/a"; the other parts are left out. What
// came from a cache stands behind the tokens that did not, as "/ cached 900". The
// text is one line, whatever the fields hold.
func (s Stats) String() string {
	var b strings.Builder
	b.WriteString(s.ForPerson())
	missed := ""
	if s.Missed > 0 {
		missed = strconv.Itoa(s.Missed)
	}
	for _, part := range [...]struct{ name, value string }{
		{"sessionKey", s.Key.String()},
		{"sessionId", s.SessionID},
		{"transcript", s.Transcript},
		{"steersMissed", missed},
	} {
		if value := strings.ReplaceAll(oneLine(part.value), "•", "·"); value != "" {
			b.WriteString(" • " + part.name + " " + value)
		}
	}
	return b.String()
}

// ForPerson returns the part of the line that people may see, which has no keys, ids or paths.
func (s Stats) ForPerson() string {
	line := statsStart + FormatDuration(s.Runtime) + " • tokens "
	in, out := max(s.Usage.Input, 0), max(s.Usage.Output, 0)
	cached := ""
	if s.Usage.CacheRead > 0 {
		cached = " / cached " + FormatTokens(s.Usage.CacheRead)
	}
	if in == 0 && out == 0 && cached == "" {
		line += "n/a"
	} else {
		line += FormatTokens(sat.Add(in, out)) + " (in " + FormatTokens(in) + " / out " +
			FormatTokens(out) + cached + ")"
	}
	if cost := FormatUSD(s.Usage.Cost); cost != "" && s.Usage.Cost != 0 {
		line += " • est " + cost
	}
	return line
}
