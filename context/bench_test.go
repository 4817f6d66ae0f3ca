package agentctx_test

import (
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// benchWorkspace makes a directory with the eight core files of 20 KB each.
func benchWorkspace(b *testing.B) *os.Root {
	b.Helper()
	dir := b.TempDir()
	text := []byte(
		strings.Repeat("Some text of a workspace file, with `code` and a list.\n- an item, and another\n", 300)[:20<<10],
	)
	for _, name := range agentctx.CoreFiles() {
		require.NoError(b, os.WriteFile(dir+"/"+name, text, 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(b, err)
	b.Cleanup(func() { _ = root.Close() })
	return root
}

var benchSink int

// BenchmarkPrompt measures loading and assembly beside the floor: a stat of
// each file and one copy of the bytes.
func BenchmarkPrompt(b *testing.B) {
	root := benchWorkspace(b)
	limits := agentctx.Limits{File: agentctx.NoLimit, Total: agentctx.NoLimit}
	run := func(l agentctx.Loader, key session.Key) int {
		files := l.Load(agentctx.LoadRequest{Session: key, Workspace: root.FS()})
		return len(
			agentctx.Assemble(
				agentctx.Input{
					Session: key, Files: files, Limits: limits, Tools: toolsNamed(knownTools...),
					Now: noonUTC,
				},
			).Sections,
		)
	}
	warm := agentctx.Loader{Cache: &agentctx.Cache{}}

	for name, files := range map[string][]string{"full": agentctx.CoreFiles(), "minimal": {"AGENTS.md", "TOOLS.md"}} {
		b.Run("floor/"+name, func(b *testing.B) {
			texts := agentctx.LoadWorkspace(root.FS(), files...)
			b.ReportAllocs()
			for b.Loop() {
				size := 0
				for _, f := range texts {
					if info, err := os.Stat(root.Name() + "/" + f.Name); err == nil {
						size += int(info.Size())
					}
				}
				buffer := make([]byte, 0, size)
				for _, f := range texts {
					buffer = append(buffer, f.Content...)
				}
				benchSink += len(buffer)
			}
		})
	}
	for name, key := range map[string]session.Key{"full": mainKey, "minimal": childKey} {
		b.Run("warm/"+name, func(b *testing.B) {
			for range 3 {
				benchSink += run(warm, key)
			}
			b.ReportAllocs()
			for b.Loop() {
				benchSink += run(warm, key)
			}
		})
		b.Run("cold/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSink += run(agentctx.Loader{}, key)
			}
		})
		b.Run("warm-32/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(max(1, 32/runtime.GOMAXPROCS(0)))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n.Add(int64(run(warm, key)))
				}
			})
		})
	}
}

// BenchmarkAssemble measures assembly alone, with text and with none.
func BenchmarkAssemble(b *testing.B) {
	for name, key := range map[string]session.Key{"full": mainKey, "minimal": childKey} {
		in := fullInput(key)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSink += len(agentctx.Assemble(in).Sections)
			}
		})
	}
}

// BenchmarkAssembler measures an Assembler that has seen its input, beside BenchmarkAssemble.
func BenchmarkAssembler(b *testing.B) {
	for name, key := range map[string]session.Key{"full": mainKey, "minimal": childKey} {
		in, m := fullInput(key), new(agentctx.Assembler)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSink += len(m.Assemble(in).Sections)
			}
		})
	}
}
