package tree

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A chat without spawns is compacted too, although every message leaves an id behind. Those ids are
// forgotten in the end.
func TestChatIsCompacted(t *testing.T) {
	s := newScene()
	s.opt.Replies = true
	s.run("open")
	snapshots := 0
	for day := range 30 {
		for i := range 200 {
			now := s.now + int64(day)*int64(24*time.Hour) + int64(i)
			decide := func(c Command) {
				_, err := s.tree.Decide(c, now)
				require.NoError(t, err)
				s.tree.Take()
			}
			decide(&Post{To: top, ID: strconv.Itoa(day*1000 + i), Text: "hello"})
			decide(Granted{Run: top})
			decide(&TurnDone{Run: top, N: s.tree.root.Turns, Answer: &Result{Text: "hi", Reply: "hi"}})
			decide(&Settle{Ord: s.tree.outbox.nextOrd})
			if s.tree.Bulky() {
				snapshots++
				decide(Compact{})
			}
		}
	}
	require.Greater(t, snapshots, 5)
	require.Less(t, s.tree.posts.Len(), 12*200, "ids are kept for a week, not for ever")
}

// A log of few facts with long texts is compacted when a snapshot would be short, and not while it
// would have these texts too.
func TestLongTextsAreCompacted(t *testing.T) {
	s := newScene()
	s.opt.Replies = true
	s.run("open")
	decide := func(c Command) {
		_, err := s.tree.Decide(c, s.now)
		require.NoError(t, err)
		s.tree.Take()
	}
	long := Text(strings.Repeat("x", 1_000_000))
	for i := range 40 {
		decide(&Post{To: top, ID: strconv.Itoa(i), Text: long})
		require.False(t, s.tree.Bulky(), "a snapshot would have all of it")
	}
	decide(Granted{Run: top})
	decide(&TurnDone{Run: top, N: 1, Answer: &Result{Text: "hi", Reply: "hi"}})
	require.True(t, s.tree.Bulky())
	decide(Compact{})
	require.False(t, s.tree.Bulky())
}
