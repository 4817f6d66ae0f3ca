package session

import (
	"errors"
	"fmt"
	"strings"
)

// Aliases resolve the short names by which people and older configurations refer to sessions. The
// zero value knows one agent, [DefaultAgent], and one short name, "main".
type Aliases struct {
	Agent  string // the agent that a name without one belongs to; empty: DefaultAgent
	Main   string // one more name of main sessions; empty: none
	Global bool   // the main sessions of all agents are one session, the global one
}

// Validate returns an error that names the first field whose value cannot stand in a key.
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

// Resolve returns the key that s means. s is either a whole key, or a key without its first part
// "agent:<agent>:", which is then that of a.Agent. If the result is a name of a main session,
// Resolve returns the one key of that session: agent:<agent>:main, or the global session if
// a.Global is set.
//
// Resolve does not have a default. Text that is not a key, the empty text included, is a
// *[KeyError]. Text that starts with "agent:" must be a whole key. Aliases that [Aliases.Validate]
// refuses are an error as well.
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
			at := max(0, min(bad.Offset-len(prefix), len(s)))
			return Key{}, &KeyError{Key: s, Offset: at, Reason: bad.Reason}
		}
		return a.canonical(k), err
	}
	k, err := Parse(s)
	return a.canonical(k), err
}

// canonical returns the one key of a main session if k is a name of it, else k. The key ends with
// the word main even if the configuration calls the session otherwise, so that [Key.IsMain] does
// not need the configuration.
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

// agent returns the agent of a name that has none.
func (a Aliases) agent() string {
	if a.Agent == "" {
		return DefaultAgent
	}
	return lower(a.Agent)
}
