package agent_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// transcriptOf returns the lines of a transcript in which each word is one, at positions 10, 20 and
// so on: "a" is said, "f20" is a fence that discards what is behind 20, and "c20" a compaction that
// stands for what is up to 20.
func transcriptOf(words string) (lines []session.Line) {
	for i, word := range strings.Fields(words) {
		line := session.Line{Pos: session.Pos(10 * (i + 1)), Message: session.Message{
			Role: session.MessageUser, Text: word,
		}}
		var at session.Pos
		if n, _ := fmt.Sscanf(word, "f%d", &at); n == 1 {
			line.Message = session.Fence(at, line.Message.Time)
		} else if n, _ := fmt.Sscanf(word, "c%d", &at); n == 1 {
			line.Message = session.Compaction(word, word,
				session.Compacted{Through: at, Messages: 1}, line.Message.Time)
		}
		lines = append(lines, line)
	}
	return lines
}

func wordsOf(lines []session.Line) string {
	words := make([]string, len(lines))
	for i, line := range lines {
		words[i] = line.Message.Text
	}
	return strings.Join(words, " ")
}

// The cut of a fork: up to the kept position, without what was fenced off by then, whatever is
// fenced off later, and behind the last compaction.
func TestForkCut(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		through     session.Pos
		want        string
	}{
		{"nothing", "", 9, ""},
		{"all", "a b c", 30, "a b c"},
		{"up to a position", "a b c", 20, "a b"},
		{"positions have gaps", "a b c", 29, "a b"},
		{"before the first line", "a", 9, ""},
		{"an earlier fence", "a b f10 c", 40, "a c"},
		{"a later fence", "a b c f10 d", 30, "a b c"},
		{"a later fence that discards all", "a b c f0 d", 30, "a b c"},
		{"a fence within what a later one discards", "a b f10 c d f10 e", 70, "a e"},
		{"everything is fenced off", "a b f0", 30, ""},
		{"a fence of nothing", "a b f20 c", 40, "a b c"},
		{"a compaction", "a b c c20 d", 50, "c20 c d"},
		{"the last compaction", "a b c10 c d c40 e", 70, "c40 d e"},
		{"a compaction after the position", "a b c20 d", 20, "a b"},
		{"a compaction that was fenced off", "a b c10 f20 d", 50, "a b d"},
		{"a compaction that was fenced off later", "a b c10 d f20", 40, "c10 b d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, wordsOf(agent.ForkCut(transcriptOf(c.lines), c.through)))
		})
	}
}

// The cut is what a model would be shown if the transcript ended at the position.
func TestForkCutIsAView(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		words := make([]string, rnd.IntN(20))
		for i := range words {
			switch at := 10 * rnd.IntN(i+1); rnd.IntN(4) {
			case 0:
				words[i] = fmt.Sprint("f", at)
			case 1:
				words[i] = fmt.Sprint("c", at)
			default:
				words[i] = fmt.Sprint("m", i)
			}
		}
		lines := transcriptOf(strings.Join(words, " "))
		through := session.Pos(rnd.IntN(10*len(words) + 20))
		var want []session.Line
		for line, err := range session.View(func(yield func(session.Line, error) bool) {
			for _, line := range lines {
				if line.Pos <= through && !yield(line, nil) {
					return
				}
			}
		}) {
			require.NoError(t, err)
			want = append(want, line)
		}
		got := agent.ForkCut(lines, through)
		require.True(t, slices.EqualFunc(want, got, func(a, b session.Line) bool {
			return a.Pos == b.Pos
		}), "seed %d: %v through %d: want %q, got %q", seed, words, through, wordsOf(want),
			wordsOf(got))
	}
}

// A fork ends where each call has its result.
func TestForkPoint(t *testing.T) {
	for name, c := range map[string]struct {
		end, line, before session.Pos
		open              int
		want              session.Pos
	}{
		"no calls":                 {end: 50, want: 50},
		"calls with their results": {end: 50, line: 30, before: 20, want: 50},
		"open calls":               {end: 50, line: 30, before: 20, open: 1, want: 29},
		"on the first line":        {end: 10, line: 1, open: 2, want: 0},
		"on a line that is not known": {
			end: 50, before: 20, open: 1, want: 20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, agent.ForkPoint(c.end, c.line, c.before, c.open))
		})
	}
}
