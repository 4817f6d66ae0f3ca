package session

// A DirectScope is how much of a direct chat tells its session apart from others.
type DirectScope uint8

// The scopes, with what each tells sessions apart by.
const (
	DirectMain           DirectScope = iota // nothing: every direct chat is the agent's main session
	DirectPerPeer                           // the person, whatever the channel
	DirectPerChannelPeer                    // the person on a channel
	DirectPerAccount                        // the person on a channel, for each of the bot's accounts there
)

var directScopeNames = [...]string{
	DirectMain: "main", DirectPerPeer: "per-peer", DirectPerChannelPeer: "per-channel-peer",
	DirectPerAccount: "per-account-channel-peer",
}

// String returns the word for s as configurations have it, such as "per-channel-peer".
func (s DirectScope) String() string { return name(directScopeNames[:], "DirectScope", s) }

// MarshalText returns the word for s. A value that is no DirectScope is an error.
func (s DirectScope) MarshalText() ([]byte, error) {
	return nameText(directScopeNames[:], "direct scope", s)
}

// UnmarshalText sets s to the DirectScope that text is the word for.
func (s *DirectScope) UnmarshalText(text []byte) error {
	return unname(directScopeNames[:], "direct scope", text, s)
}

// Key returns the key of a direct chat in this scope, the zero Key if a part that the scope needs is missing or cannot stand in a key.
// It never falls back to a wider scope: a chat of unknown origin must not become the main session.
func (s DirectScope) Key(agent, channel, account, peer string) Key {
	switch s {
	case DirectMain:
		return Main(agent)
	case DirectPerPeer:
		return DirectPeer(agent, peer)
	case DirectPerChannelPeer:
		return Direct(agent, channel, peer)
	case DirectPerAccount:
		return DirectAccount(agent, channel, account, peer)
	}
	return Key{}
}
