package session

import (
	"errors"
	"fmt"
	"strings"
)

// Aliases say what people and older configurations mean by a session's short name. The zero value knows one agent, [DefaultAgent], and
// one alias, main.
type Aliases struct {
	Agent  string // the id of the agent that a key without one belongs to; empty: [DefaultAgent]
	Main   string // one more name of main sessions, as it is configured; empty: none
	Global bool   // main sessions of every agent are one, the global session
}

// Validate returns an error that names the field that cannot be.
func (a Aliases) Validate() error {
	if _, reason := checkAgent(a.agent()); reason != "" {
		return fmt.Errorf("session: aliases: agent %q: %s", a.Agent, reason)
	}
	if main := lower(a.Main); main != "" && main != wordMain {
		if _, reason := checkName(main); reason != "" {
			return fmt.Errorf("session: aliases: main %q: %s", a.Main, reason)
		}
	}
	return nil
}

// Resolve returns the key that s means: a whole key, or one without "agent:<agent>:", which is then that of the default agent. Aliases
// of a main session, in either form, become its one key, see [Aliases.canonical]. There is no default: empty text is a *[KeyError] as
// any other that is no key, and text that starts with "agent:" has to be a whole key.
func (a Aliases) Resolve(s string) (Key, error) {
	if err := a.Validate(); err != nil {
		return Key{}, err
	}
	first, _, _ := strings.Cut(s, ":")
	whole := equalWord(first, wordAgent) || equalWord(s, wordGlobal)
	switch {
	case whole:
	case equalWord(s, wordMain):
		return a.canonical(mainKey(a.agent())), nil
	default:
		prefix := wordAgent + ":" + a.agent() + ":"
		k, err := Parse(prefix + s)
		if bad := (*KeyError)(nil); errors.As(err, &bad) {
			return Key{}, &KeyError{Key: s, Offset: max(0, min(bad.Offset-len(prefix), len(s))), Reason: bad.Reason}
		}
		return a.canonical(k), err
	}
	k, err := Parse(s)
	return a.canonical(k), err
}

// canonical returns the one key of a main session if k is an alias of it, else k. That key is agent:<agent>:main, also where a main
// session has another name in the configuration, so that [Key.IsMain] needs none; with Global it is the global session.
func (a Aliases) canonical(k Key) Key {
	alias := k.IsMain()
	if main := lower(a.Main); main != "" && k.Kind() == KindNamed && k.ThreadID() == "" {
		alias = alias || k.ID() == main
	}
	switch {
	case alias && a.Global:
		return GlobalKey()
	case alias:
		return mainKey(k.Agent())
	}
	return k
}

func (a Aliases) agent() string {
	if a.Agent == "" {
		return DefaultAgent
	}
	return lower(a.Agent)
}
