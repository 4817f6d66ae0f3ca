package dirstore

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/session"
)

// The names of a transcript and its directory are valid on every system, whatever a key and a
// session id contain.
func FuzzTranscriptNames(f *testing.F) {
	for _, key := range []string{
		"agent:main:main", "global", "agent:con:main", "agent:main:matrix:channel:../../../etc/passwd", `agent:main:x:direct:..\..\x`,
		"agent:com1:subagent:6f1c0e5e-1111-4111-8111-111111111111", "agent:main:telegram:group:%2e%2e%2fx", "agent:nul:cron:daily",
	} {
		for _, id := range []string{"6f1c", "nul", "COM9.x", "a..b", "lpt0", "x.jsonl.tmp", "con", strings.Repeat("a", 128)} {
			f.Add(key, id)
		}
	}
	f.Fuzz(func(t *testing.T, key, id string) {
		k, err := session.Parse(key)
		if err != nil {
			return
		}
		ref := session.Ref{Key: k, SessionID: id}
		if ref.Validate() != nil {
			return
		}
		names := transcriptNames(ref)
		for _, name := range append(names[:], agentDir(k)) {
			if !filepath.IsLocal(name) || filepath.Base(name) != name ||
				strings.ContainsAny(name, `/\:*?"<>|`) || !utf8.ValidString(name) {
				t.Fatalf("%q of %q and %q", name, key, id)
			}
			stem, _, _ := strings.Cut(strings.ToLower(name), ".")
			device := stem == "con" || stem == "prn" || stem == "aux" || stem == "nul"
			if len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") {
				device = '0' <= stem[3] && stem[3] <= '9'
			}
			if device || len(name) > 255 ||
				strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
				t.Fatalf("%q of %q and %q is not a name on every system", name, key, id)
			}
		}
		if names[0] == names[1] {
			t.Fatalf("%q", names)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, transcriptSuffix) {
				t.Fatalf("%q", names)
			}
		}
	})
}
