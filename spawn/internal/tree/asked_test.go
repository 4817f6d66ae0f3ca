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
	data, err := snapshotOf(&Image{Epoch: 1, Runs: runs}).AppendJSON(nil)
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

// A journal of an earlier library, which did not tell the places of a top-level session apart that
// are not bound, folds as it did there: a reply names all messages that wait in one of them. What
// such a journal leaves waiting is answered in whichever place is the next, and what comes after it
// in its own.
func TestAskedTogetherByAnEarlierLibrary(t *testing.T) {
	const script = `options replies=true
open
post top id=a1 text=x route=irc/one meta=m:1
grant top
spawn top a turn=1
done top
post top id=b1 text=x route=irc/two
grant top
done top
post top id=a2 text=x route=irc/one meta=m:2
grant top
done top
post top id=b2 text=x route=irc/two
grant top
say top number=1 text=hm
----
`
	var facts []Fact
	s := newScene()
	s.log.seen = func(f *Fact) { facts = append(facts, *f) }
	require.NotContains(t, string(s.play([]byte(script))), "VIOLATION")
	names := func() (list [][]string) {
		for _, ord := range s.tree.outbox.ords() {
			list = append(list, s.tree.outbox.entries[ord].InReplyTo)
		}
		return list
	}
	require.Equal(t, [][]string{{"b1", "b2"}}, names())

	apart := 0
	for i := range facts {
		if facts[i].Elsewhere {
			apart++
		}
		facts[i].Elsewhere = false
	}
	require.Equal(t, 3, apart)
	s.log = ledger{}
	require.NoError(t, s.log.append(facts))
	var err error
	s.tree, err = s.log.fold(top, &s.opt)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a1", "b1", "a2", "b2"}}, names())
	require.Equal(t, []Asked{
		{IDs: []string{"a1", "b1", "a2"}, Meta: map[string]string{"m": "2"}},
	}, s.tree.Root().Asked)

	for _, line := range []string{
		"crash", "open", "grant top", "done top", // what it has said is not known to have arrived
		"post top id=a3 text=x route=irc/one", "grant top", "done top reply=ok",
	} {
		require.NotContains(t, s.run(line), "VIOLATION", line)
	}
	require.Equal(t, []string{"a1", "b1", "a2", "a3"}, names()[1])
	require.Equal(t, []Asked{{IDs: []string{"b2"}, At: routeOf("irc/two")}}, s.tree.Root().Asked)
}

// A wait that an earlier library recorded says nothing of its place: the turn that it begins
// answers where the last one did, as it did there.
func TestWaitOfAnEarlierLibrary(t *testing.T) {
	const script = `options replies=true
open
post top id=a text=x route=irc/one/room
grant top
spawn top a turn=1
done top yield=all within=1m
post top id=b text=x route=irc/two/room
grant top
done top reply=hi
+2m tick
grant top
done top reply=late
----
`
	var facts []Fact
	s := newScene()
	s.log.seen = func(f *Fact) { facts = append(facts, *f) }
	require.NotContains(t, string(s.play([]byte(script))), "VIOLATION")
	went := func() (list []string) {
		for _, ord := range s.tree.outbox.ords() {
			e := s.tree.outbox.entries[ord]
			list = append(list, e.Route.Account+": "+strings.Join(e.InReplyTo, " "))
		}
		return list
	}
	require.Equal(t, []string{"two: b", "one: a"}, went())
	for i := range facts {
		if j := facts[i].Join(); j != nil {
			early := *j
			early.At, facts[i].Own().Join = nil, &early
		}
		if facts[i].Kind == TurnStarted {
			facts[i].Route = nil
		}
		if a := facts[i].Answer; a != nil && a.Reply == "late" {
			facts[i].Route = &session.Route{Channel: "irc", Account: "two", To: "room"}
			facts[i].Elsewhere = true
		}
	}
	s.log = ledger{}
	require.NoError(t, s.log.append(facts))
	var err error
	s.tree, err = s.log.fold(top, &s.opt)
	require.NoError(t, err)
	require.Equal(t, []string{"two: b", "two: "}, went())
	require.Len(t, s.tree.Root().Asked, 1)
}
