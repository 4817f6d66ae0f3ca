package announce

import (
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// Stats is what a run took and where its traces are. The zero Stats knows nothing.
type Stats struct {
	Runtime    time.Duration `json:"runtime,omitempty"` // from the first turn to the end; 0 if it never started
	Usage      session.Usage `json:"usage,omitzero"`    // of all turns; zero if unknown
	Key        session.Key   `json:"key,omitzero"`
	SessionID  string        `json:"sessionId,omitempty"`
	Transcript string        `json:"transcript,omitempty"` // path, where there is one
}

// String returns the line for the requester's model:
//
//	Stats: runtime 5m12s • tokens 1.0k (in 12 / out 1.0k) • est $0.12 • sessionKey K • sessionId S • transcript P
//
// What is not known is "n/a" for the first two and left out for the others. It is one line whatever the fields hold.
func (s Stats) String() string {
	var b strings.Builder
	b.WriteString(s.ForPerson())
	for _, part := range [...]struct{ name, value string }{
		{"sessionKey", s.Key.String()}, {"sessionId", s.SessionID}, {"transcript", s.Transcript},
	} {
		if value := strings.ReplaceAll(oneLine(part.value), "•", "·"); value != "" {
			b.WriteString(" • " + part.name + " " + value)
		}
	}
	return b.String()
}

// ForPerson returns the part of the line that people may see: without keys, ids and paths.
func (s Stats) ForPerson() string {
	line := statsStart + FormatDuration(s.Runtime) + " • tokens "
	if in, out := max(s.Usage.Input, 0), max(s.Usage.Output, 0); in == 0 && out == 0 {
		line += "n/a"
	} else {
		line += FormatTokens(in+out) + " (in " + FormatTokens(in) + " / out " + FormatTokens(out) + ")"
	}
	if cost := FormatUSD(s.Usage.Cost); cost != "" && s.Usage.Cost != 0 {
		line += " • est " + cost
	}
	return line
}
