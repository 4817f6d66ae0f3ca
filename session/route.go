package session

import "strings"

// A Route is where text goes in the world: which conversation, of which channel. The zero Route goes nowhere. A field that is empty is
// not known, which [Route.Or] can mend.
type Route struct {
	Channel string `json:"channel,omitempty"` // such as "telegram", in lower case
	Account string `json:"account,omitempty"` // which of the bot's accounts on the channel
	To      string `json:"to,omitempty"`      // the person, group or room, as the channel spells it
	Thread  string `json:"thread,omitempty"`  // the thread or topic in it
}

// IsZero reports whether nothing of r is known.
func (r Route) IsZero() bool { return r == Route{} }

// Complete reports whether r says enough to send something: a channel and whom to.
func (r Route) Complete() bool { return r.Channel != "" && r.To != "" }

// Clean returns r without outer space, and with the channel in lower case.
func (r Route) Clean() Route {
	return Route{
		Channel: lower(strings.TrimSpace(r.Channel)),
		Account: strings.TrimSpace(r.Account),
		To:      strings.TrimSpace(r.To),
		Thread:  strings.TrimSpace(r.Thread),
	}
}

// Or returns r with its gaps filled from other, field by field. It never mixes conversations: nothing is taken from a route of
// another channel or of another account, and a thread only if whom it goes to is taken as well, since a thread is one of a
// conversation. A route without a channel agrees with any.
func (r Route) Or(other Route) Route {
	if differ(r.Channel, other.Channel) || differ(r.Account, other.Account) {
		return r
	}
	if r.Channel == "" {
		r.Channel = other.Channel
	}
	if r.Account == "" {
		r.Account = other.Account
	}
	if r.To == "" {
		r.To = other.To
		if r.Thread == "" {
			r.Thread = other.Thread
		}
	}
	return r
}

// differ reports whether both are known and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// Route returns the route that a chat key itself tells, zero if k is not that of a chat on a channel.
func (k Key) Route() Route {
	c := k.chat()
	if c.channel == "" {
		return Route{}
	}
	return Route{Channel: c.channel, Account: c.account, To: c.peer, Thread: k.ThreadID()}
}
