package session_test

import (
	"context"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
)

var parseSink session.Key

func BenchmarkParse(b *testing.B) {
	for name, s := range map[string]string{
		"main":      "agent:main:main",
		"group":     "agent:main:telegram:group:-1001234567890:topic:42",
		"subagent2": "agent:ops:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11:subagent:0b6c1c1e-2e0f-4f6e-8a53-4f6c2a527d1c",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := session.Parse(s)
				if err != nil {
					b.Fatal(err)
				}
				parseSink = k
			}
		})
	}
}

func BenchmarkKeyMethods(b *testing.B) {
	k := session.Must(
		session.Parse(
			"agent:ops:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11:subagent:0b6c1c1e-2e0f-4f6e-8a53-4f6c2a527d1c",
		),
	)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += k.Depth() + len(k.Agent()) + len(k.ID()) + int(k.Kind())
	}
}

type emptyPayload struct{}

func (emptyPayload) AppendJSON(b []byte) ([]byte, error) { return append(b, "{}"...), nil }

// BenchmarkMemoryAppend appends batches of three entries. Its floor is what keeping the slices
// costs.
func BenchmarkMemoryAppend(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		var kept [][]session.Entry
		b.ReportAllocs()
		for b.Loop() {
			kept = append(kept, make([]session.Entry, 3))
		}
		_ = kept
	})
	b.Run("append", func(b *testing.B) {
		j := session.NewMemory().Journal
		root := session.Must(session.MainKey("main"))
		ctx := context.Background()
		var last session.Seq
		b.ReportAllocs()
		for b.Loop() {
			entries := make([]session.Entry, 3)
			for i := range entries {
				entries[i].Payload = emptyPayload{}
			}
			var err error
			last, err = j.Append(ctx, root, last, session.Batch{ID: "b", Entries: entries})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Appends to different trees at once do not wait for each other.
func BenchmarkMemoryAppendTrees(b *testing.B) {
	j := session.NewMemory().Journal
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		root := session.Must(session.NamedKey("main", session.NewID()))
		entries := []session.Entry{{Payload: emptyPayload{}}}
		var last session.Seq
		for pb.Next() {
			last, _ = j.Append(ctx, root, last, session.Batch{Entries: entries})
		}
	})
}
