package tree

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
)

// post builds a message from its words.
func (s *scene) post(to session.Key, w words) *Post {
	c := postOf(to, s.names[w.named["from"]], w)
	c.Own, c.Event = s.names[w.named["own"]], w.has("event")
	return c
}

// bindCommand builds a command about a bound conversation from its words.
func bindCommand(verb string, r session.Key, w words) (Command, error) {
	switch route := routeOf(w.named["route"]); {
	case verb == "bind" && route != nil:
		return &Bind{Run: r, Route: *route}, nil
	case verb == "unbind" && route != nil:
		return &Unbind{Run: r, Route: *route, Reason: Text(w.named["why"])}, nil
	case verb == "unbound" && route != nil:
		return &UnbindDone{
			Run: r, Route: *route, Reason: Text(w.named["why"]), Failed: w.has("failed"),
		}, nil
	}
	return nil, fmt.Errorf("no command %q", verb)
}
