package session

import "strings"

// A Route is a conversation in the world: where messages come from and where replies go. The zero
// Route is not a conversation. An empty field is not known; [Route.Or] can fill it in.
type Route struct {
	Channel string `json:"channel,omitempty"` // such as "telegram", in lower case
	Account string `json:"account,omitempty"` // which of the bot's accounts on the channel
	To      string `json:"to,omitempty"`      // person, group or room, as the channel spells it
	Thread  string `json:"thread,omitempty"`  // thread or topic in the conversation
}

// IsZero reports whether every field of r is empty.
func (r Route) IsZero() bool { return r == Route{} }

// Complete reports whether r is enough to send a message: whether it has a channel and a recipient.
func (r Route) Complete() bool { return r.Channel != "" && r.To != "" }

// Clean returns r without the white space around its fields, and with the channel in lower case.
func (r Route) Clean() Route {
	return Route{
		Channel: lower(strings.TrimSpace(r.Channel)),
		Account: strings.TrimSpace(r.Account),
		To:      strings.TrimSpace(r.To),
		Thread:  strings.TrimSpace(r.Thread),
	}
}

// Or returns r with its empty fields filled from other. The result never mixes two conversations:
//
//   - If r and other have different channels, or different accounts, r is returned unchanged. An
//     empty channel or account differs from nothing.
//   - The thread of other is taken only together with its recipient, since a thread belongs to one
//     conversation.
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

// differ reports whether a and b are both known and not equal.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// Route returns the conversation that the key of a chat names, with the thread that k ends with. It
// returns the zero Route if k is not the key of a chat on a channel.
func (k Key) Route() Route {
	c := k.chat()
	if c.channel == "" {
		return Route{}
	}
	return Route{Channel: c.channel, Account: c.account, To: c.peer, Thread: k.ThreadID()}
}
