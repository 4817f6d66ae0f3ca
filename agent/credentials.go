package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Secret is a credential. It is masked wherever it is printed, marshalled or logged, under every
// verb and also as a part of another value; only [Secret.Reveal] returns it. In an unexported field
// package fmt calls no method: there a Secret prints as an address. The zero Secret is empty.
type Secret struct{ value *string } // a pointer, so that no verb shows what an outer value holds

// NewSecret returns a Secret with a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// secretMask is what is shown of a Secret.
const secretMask = "***"

// Reveal returns the value. Hand it to the client that needs it, and to nothing else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether s is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns "***", or nothing for an empty Secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return secretMask
}

// GoString returns what String does.
func (s Secret) GoString() string { return fmt.Sprintf("agent.Secret(%q)", s.String()) }

// Format implements fmt.Formatter: every verb prints what String returns, but for %#v and %q.
func (s Secret) Format(f fmt.State, verb rune) {
	said := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		said = s.GoString()
	case verb == 'q':
		said = strconv.Quote(said)
	}
	_, _ = io.WriteString(f, said) // fmt does not tell either
}

// MarshalText returns what String does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer with what String returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// A Profile is one credential for one provider.
type Profile struct {
	// ID is the id of the profile, such as "anthropic:default". [CredentialFor] sets it; in
	// [Profiles].ByID the key is the id.
	ID       string
	Provider string // such as "anthropic", in any letter case
	Kind     string // the caller's word for what Secret is, such as "api_key" or "oauth"
	Secret   Secret // the key or the token
	Refresh  Secret // what Secret is renewed with; empty: nothing
	// Expires is when Secret is of no use any more. Zero: not known. The Runtime does not look at
	// it.
	Expires time.Time
	// Extra are values that are not secret, such as an account or a region, by name.
	Extra map[string]string
}

// Profiles are the credentials of an agent. The zero Profiles are none.
type Profiles struct {
	// ByID are the profiles by id.
	ByID map[string]Profile
	// Order has the ids of the profiles of a provider that are used, the first one to be tried
	// first, by provider in any letter case. An id that is not in ByID is passed over. A provider
	// that is not there has all its profiles, sorted by id.
	Order map[string][]string
	// Isolated says that the agent has nothing else. False: what agent main has is added, for the
	// ids and the orders that the agent has not. Of main itself it says nothing.
	Isolated bool
}

// over returns the profiles of an agent with those of main beneath.
func (p Profiles) over(main Profiles) Profiles {
	all := Profiles{ByID: maps.Clone(main.ByID), Order: maps.Clone(main.Order)}
	if all.ByID == nil {
		all.ByID = make(map[string]Profile, len(p.ByID))
	}
	maps.Copy(all.ByID, p.ByID)
	for provider, ids := range p.Order {
		if of, ok := keyInAnyCase(all.Order, provider); ok {
			delete(all.Order, of)
		}
		if all.Order == nil {
			all.Order = make(map[string][]string, len(p.Order))
		}
		all.Order[provider] = ids
	}
	return all
}

// of returns the profiles of a provider, the first one to be tried first.
func (p Profiles) of(provider string) []Profile {
	provider = strings.TrimSpace(provider)
	ids, ordered := inAnyCase(p.Order, provider)
	if !ordered {
		ids = slices.Sorted(maps.Keys(p.ByID))
	}
	var found []Profile
	for _, id := range ids {
		x, ok := p.ByID[id]
		if ok && strings.EqualFold(strings.TrimSpace(x.Provider), provider) {
			x.ID = id
			found = append(found, x)
		}
	}
	return found
}

// secrets returns the secrets in p.
func (p Profiles) secrets() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(p.ByID)) {
		x := p.ByID[id]
		all = append(all, x.Secret.Reveal(), x.Refresh.Reveal())
	}
	return all
}

// A MissingCredentialError says that an agent has no credential for a provider. It is
// [ErrAccount], too, so that people are told that the account is what is wrong.
type MissingCredentialError struct {
	Agent    string // empty: the ctx is not that of a turn with [Models].Credentials
	Provider string // as it was asked for
	Isolated bool   // the agent does not have what main has
	// Known are the providers for which the agent has one, sorted.
	Known []string
}

func (e *MissingCredentialError) Error() string {
	if e.Agent == "" {
		return "agent: there is no credential for provider " + text.Quote(e.Provider) +
			", since the ctx is not that of a turn with Models.Credentials"
	}
	said := fmt.Sprintf("agent: agent %q has no credential for provider %s", e.Agent,
		text.Quote(e.Provider))
	if e.Isolated {
		said += " (it is isolated, so that those of agent main do not count)"
	}
	if len(e.Known) > 0 {
		said += "; it has some for " + text.Cut(strings.Join(e.Known, ", "), text.MaxName)
	}
	return said
}

// Unwrap returns [ErrAccount].
func (e *MissingCredentialError) Unwrap() error { return ErrAccount }

// A keyring has the credentials of a turn.
type keyring struct {
	agent    string
	profiles Profiles
	isolated bool
}

// keyringKey is the key of a *keyring in a ctx.
type keyringKey struct{}

// CredentialFor returns the credential to use for a provider, by the ctx that a [Runner] was given
// or one derived from it: that of a [Model] and of a tool is such a one. It is the first one of
// [CredentialsFor]. The error is a *[MissingCredentialError].
func CredentialFor(ctx context.Context, provider string) (Profile, error) {
	all, err := CredentialsFor(ctx, provider)
	if err != nil {
		return Profile{}, err
	}
	return all[0], nil
}

// CredentialsFor returns the credentials that the agent of a turn has for a provider, in the order
// in which they are to be tried, at least one; see [Models].Credentials. A Runner whose provider
// refuses the first one may go on with the next. The error is a *[MissingCredentialError].
func CredentialsFor(ctx context.Context, provider string) ([]Profile, error) {
	k, _ := ctx.Value(keyringKey{}).(*keyring)
	if k == nil {
		return nil, &MissingCredentialError{Provider: provider}
	}
	if found := k.profiles.of(provider); len(found) > 0 {
		return found, nil
	}
	e := &MissingCredentialError{Agent: k.agent, Provider: provider, Isolated: k.isolated}
	for _, x := range k.profiles.ByID {
		e.Known = append(e.Known, strings.ToLower(strings.TrimSpace(x.Provider)))
	}
	slices.Sort(e.Known)
	e.Known = slices.Compact(e.Known)
	return nil, e
}

// withoutCredentials returns the error of a tool that was called with ctx, without the credentials
// of the turn in its text: the model reads it, and the transcript has it. The rest of it stays, as
// what the model itself has said.
func withoutCredentials(ctx context.Context, err error) error {
	k, _ := ctx.Value(keyringKey{}).(*keyring)
	if k == nil || err == nil {
		return err
	}
	var own []string
	for _, s := range k.profiles.secrets() {
		if secret.IsOwn(s) {
			own = append(own, s)
		}
	}
	said := err.Error()
	if shown := secret.NewOwn(own, nil).MaskOwn(said); shown != said {
		return &redactedError{shown, err}
	}
	return err
}

// credentialsField is the path of the function that returns credentials.
const credentialsField = "Models.Credentials"

// withCredentials returns ctx with the credentials of the agent of a turn, all of which are masked
// from now on.
func (t *Turn) withCredentials(ctx context.Context) (context.Context, error) {
	of := t.rt.cfg().Models.Credentials
	if of == nil {
		return ctx, nil
	}
	before := t.entering(credentialsField) // which stays if it panics
	k := &keyring{agent: cmp.Or(t.rt.cfg().Rules.AgentOf(t.Session.Key), session.DefaultAgent)}
	own, err := of(ctx, k.agent)
	k.isolated = own.Isolated && k.agent != session.DefaultAgent
	var main Profiles
	if err == nil && k.agent != session.DefaultAgent && !own.Isolated {
		main, err = of(ctx, session.DefaultAgent)
	}
	k.profiles = own.over(main)
	t.rt.redactor.Learn(k.profiles.secrets()...) // before the error is read, which may have one
	_ = contain.Read(err)
	t.entering(before)
	if err != nil {
		return ctx, &CallbackError{Field: credentialsField, Err: err}
	}
	return context.WithValue(ctx, keyringKey{}, k), nil
}
