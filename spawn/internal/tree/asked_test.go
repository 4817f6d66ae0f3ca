package tree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// An image of an earlier library has what waits for an answer without its conversation: of a
// sub-agent it is of where that answers, of a top-level session of its own.
func TestAskedOfAnEarlierLibrary(t *testing.T) {
	child := session.Must(top.Child("main", "a"))
	at := &session.Route{Channel: "chat", To: "one"}
	spec := func(key session.Key) *Spec {
		s := &Spec{ID: key.String(), Key: key, SessionID: "s", Grant: &Grant{}}
		if key != top {
			s.Parent = top
		}
		return s
	}
	runs := []RunState{{Spec: spec(top), State: Waiting}, {Spec: spec(child), State: Waiting}}
	for i := range runs {
		runs[i].Route, runs[i].Asked = at, []Asked{{IDs: []string{"m1"}}}
	}
	data, err := (&Fact{Kind: Snapshot, Image: &Image{Epoch: 1, Runs: runs}}).AppendJSON(nil)
	require.NoError(t, err)
	earlier := strings.ReplaceAll(string(data), `"askedBy":[{"ids":["m1"]}]`,
		`"asked":{"ids":["m1"]}`)
	require.NotEqual(t, string(data), earlier)
	f, err := DecodeFact([]byte(earlier))
	require.NoError(t, err)
	tr := New(top, &Options{})
	require.NoError(t, tr.Replay(f))
	require.Equal(t, []Asked{{IDs: []string{"m1"}}}, tr.Root().Asked)
	require.Equal(t, []Asked{{IDs: []string{"m1"}, Route: at}}, tr.Run(child).Asked)
}
