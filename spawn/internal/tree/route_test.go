package tree

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// A top-level session of several people who write from several places answers one place in a turn:
// what comes of a sub-agent where it was asked for, a message where it was written, and what does
// not say where it comes from where the last was answered.
func TestTurnAnswersOneRoute(t *testing.T) {
	at := map[string]*session.Route{
		"a": {Channel: "telegram", To: "alice"}, "b": {Channel: "slack", To: "bob"}, "": nil,
	}
	for name, c := range map[string]struct {
		inputs []string // the places of messages; "done a": the end of a sub-agent of a
		want   []string // of each turn, the last input and the place that it answers
	}{
		"one":                     {[]string{"a", "a"}, []string{"2 a"}},
		"two":                     {[]string{"a", "b"}, []string{"1 a", "2 b"}},
		"and back":                {[]string{"a", "b", "a"}, []string{"1 a", "2 b", "3 a"}},
		"no place":                {[]string{"", ""}, []string{"2 "}},
		"no place before one":     {[]string{"", "a"}, []string{"2 a"}},
		"no place behind one":     {[]string{"a", "", "b", ""}, []string{"2 a", "4 b"}},
		"an end":                  {[]string{"done a", "a"}, []string{"2 a"}},
		"an end of another":       {[]string{"done a", "b"}, []string{"1 a", "2 b"}},
		"a message of another":    {[]string{"b", "done a"}, []string{"1 b", "2 a"}},
		"two ends":                {[]string{"done a", "done b"}, []string{"1 a", "2 b"}},
		"an end without a place":  {[]string{"a", "done "}, []string{"2 a"}},
		"an end without, and one": {[]string{"done ", "b"}, []string{"2 b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			do := func(c Command) { require.NotContains(t, s.do(c), "VIOLATION", "%T", c) }
			do(&Open{Writer: "w", SessionID: "s"})
			for i, in := range c.inputs {
				place, isEnd := "", false
				if n, _ := fmt.Sscanf(in, "done %s", &place); n == 1 || in == "done " {
					isEnd = true
				}
				if !isEnd {
					do(&Post{To: top, Text: "x", Route: at[in]})
					continue
				}
				do(&Spawn{
					Parent: top, ID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i+1), Task: "x",
					Announce: true, Route: at[place],
				})
				child := s.tree.Sessions()[len(s.tree.Sessions())-1]
				do(Granted{Run: child})
				do(&TurnDone{Run: child, N: 1, Answer: &Result{Text: "found"}})
			}
			var got []string
			for n := uint32(1); n <= 5; n++ {
				do(Granted{Run: top})
				root := s.tree.Root()
				if root.Open == nil {
					break
				}
				where := ""
				for name, route := range at {
					if route != nil && root.Route != nil && *route == *root.Route {
						where = name
					}
				}
				got = append(got, fmt.Sprint(root.Open.Through, " ", where))
				do(&TurnDone{Run: top, N: n, Answer: &Result{Text: "ok", Reply: "ok"}})
			}
			require.Equal(t, c.want, got)
		})
	}
}
