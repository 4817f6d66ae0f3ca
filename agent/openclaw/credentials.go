package openclaw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
)

// profilesFile is the file in the directory of an agent that has its credentials.
const profilesFile = "auth-profiles.json"

// maxProfiles bounds a file of credentials, in bytes.
const maxProfiles = 1 << 20

// A Store reads the credentials of agents from their directories. It never writes one, and never
// copies one from one directory into another. Its method Profiles is a function for
// [agent.Models].Credentials. It may be used by any number of goroutines.
type Store struct {
	// Dirs are the directories of agents, by id in lower case. An agent that is not there has
	// <StateDir>/agents/<id>/agent.
	Dirs map[string]string
	// StateDir is where OpenClaw keeps its state.
	StateDir string
	// Isolated are the ids of agents, in lower case, that do not have what agent main has.
	Isolated []string
	// Order has the ids of the profiles that are tried, by provider, where the file of an agent has
	// no order.
	Order map[string][]string
	// Env returns a variable that a profile names in place of its secret. Nil: os.LookupEnv.
	Env func(name string) (string, bool)
	// Now is the time, by which a token is of no use any more. Nil: time.Now.
	Now func() time.Time
}

// Profiles returns the credentials of an agent as its file has them now. An agent without a file
// has none of its own. Left out are entries without a provider, a kind that is known or a secret,
// and tokens that have expired and cannot be renewed, and an order that is not a list. The error is
// that of the file system, or says what the file is in place of a JSON object with profiles; it
// never has anything of its content. A byte order mark before the object is passed over.
func (s *Store) Profiles(ctx context.Context, id string) (agent.Profiles, error) {
	if ctx.Err() != nil {
		return agent.Profiles{}, context.Cause(ctx)
	}
	id = strings.ToLower(id)
	p := agent.Profiles{Isolated: slices.Contains(s.Isolated, id), Order: s.Order}
	dir := s.Dirs[id]
	if dir == "" {
		dir = filepath.Join(s.StateDir, "agents", canonical(id), "agent")
	}
	data, err := readProfiles(filepath.Join(dir, profilesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return agent.Profiles{}, fmt.Errorf("openclaw: credentials of agent %q: %w", id, err)
	}
	file, fault := decodeProfiles(data)
	if fault != "" {
		return agent.Profiles{}, fmt.Errorf("openclaw: credentials of agent %q: %s is not a JSON "+
			"object with profiles: %s", id, profilesFile, fault)
	}
	p.ByID = make(map[string]agent.Profile, len(file.Profiles))
	for name, raw := range file.Profiles {
		if x, ok := s.profile(raw); ok {
			p.ByID[name] = x
		}
	}
	p.Order = orders(s.Order, file.Order)
	return p, nil
}

// A storedProfiles is a file of credentials.
type storedProfiles struct {
	Profiles map[string]json.RawMessage `json:"profiles"`
	Order    map[string]json.RawMessage `json:"order"`
}

// decodeProfiles decodes a file of credentials. A fault says what is wrong with it without anything
// of its content, which the errors of encoding/json may have.
func decodeProfiles(data []byte) (file storedProfiles, fault string) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	var members map[string]json.RawMessage
	switch {
	case len(data) == 0:
		return file, "it is empty"
	case !utf8.Valid(data):
		return file, "it is not UTF-8"
	case !json.Valid(data):
		return file, "it is not JSON"
	case data[0] != '{':
		return file, "it is " + jsonKind(data)
	case json.Unmarshal(data, &file) == nil:
		return file, ""
	}
	_ = json.Unmarshal(data, &members) // it is an object
	for _, name := range []string{"profiles", "order"} {
		if raw, ok := members[name]; ok && raw[0] != '{' && raw[0] != 'n' {
			return file, name + " is " + jsonKind(raw)
		}
	}
	return file, "a member of it is not what it should be"
}

// jsonKind says what a value is that is valid JSON and not an object.
func jsonKind(value []byte) string {
	switch value[0] {
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// readProfiles reads a file of credentials.
func readProfiles(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil {
		err = checkRegular(profilesFile, info)
	}
	if err != nil {
		return nil, err
	}
	file, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was read from
	if info, err = file.Stat(); err == nil {
		err = checkRegular(profilesFile, info)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxProfiles+1))
	if err == nil && len(data) > maxProfiles {
		err = fmt.Errorf("%s has more than %d bytes", profilesFile, maxProfiles)
	}
	return data, err
}

// providerName returns the name of a provider as orders have it.
func providerName(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// orders returns the orders of the file of an agent over those of the configuration.
func orders(under map[string][]string, own map[string]json.RawMessage) map[string][]string {
	all := make(map[string][]string, len(under)+len(own))
	for _, provider := range slices.Sorted(maps.Keys(under)) { // so that the last one counts
		all[providerName(provider)] = under[provider]
	}
	for _, provider := range slices.Sorted(maps.Keys(own)) {
		var ids []string
		if json.Unmarshal(own[provider], &ids) == nil {
			all[providerName(provider)] = ids
		}
	}
	return all
}

// A storedProfile is an entry of the file. Mode and APIKey are other names for Type and Key.
type storedProfile struct {
	Type, Mode, Provider string
	Key, APIKey          string
	Token                string
	Access, Refresh      string
	KeyRef, TokenRef     *secretRef
	Expires              float64 // milliseconds since 1970
	Email                string
	AccountID            string
	Metadata             map[string]string
}

// A secretRef says where a secret is.
type secretRef struct{ Source, ID string }

// profile returns an entry of a file. ok is false if it is of no use.
func (s *Store) profile(raw json.RawMessage) (x agent.Profile, ok bool) {
	var in storedProfile
	if json.Unmarshal(raw, &in) != nil {
		return agent.Profile{}, false
	}
	x.Provider = strings.TrimSpace(in.Provider)
	if x.Kind = strings.TrimSpace(in.Type); x.Kind == "" {
		x.Kind = strings.TrimSpace(in.Mode)
	}
	var secret string
	switch x.Kind {
	case "api_key":
		if secret = in.Key; secret == "" {
			secret = in.APIKey
		}
		secret = s.resolve(secret, in.KeyRef)
	case "token":
		secret = s.resolve(in.Token, in.TokenRef)
	case "oauth":
		secret, x.Refresh = in.Access, agent.NewSecret(in.Refresh)
	default:
		return agent.Profile{}, false
	}
	x.Secret = agent.NewSecret(strings.TrimSpace(secret))
	if in.Expires > 0 && in.Expires < 1e15 {
		x.Expires = time.UnixMilli(int64(in.Expires))
	}
	x.Extra = in.Metadata
	for name, text := range map[string]string{"email": in.Email, "accountId": in.AccountID} {
		if text == "" {
			continue
		}
		if x.Extra == nil {
			x.Extra = make(map[string]string)
		}
		x.Extra[name] = text
	}
	expired := !x.Expires.IsZero() && !s.now().Before(x.Expires)
	return x, x.Provider != "" && !x.Secret.IsZero() && (!expired || !x.Refresh.IsZero())
}

// resolve returns a secret, from the environment if the file only says where it is.
func (s *Store) resolve(secret string, ref *secretRef) string {
	if secret != "" || ref == nil || ref.Source != "env" {
		return secret
	}
	lookup := s.Env
	if lookup == nil {
		lookup = os.LookupEnv
	}
	if found, ok := lookup(ref.ID); ok {
		return found
	}
	return ""
}

func (s *Store) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// authOrder looks at auth.order, whose ids are those of files that are read later.
func (c *converter) authOrder() {
	order, named := c.file.Auth.Order, make(map[string]string)
	for _, provider := range slices.Sorted(maps.Keys(order)) {
		ids, path, low := order[provider], dot("auth.order", provider), providerName(provider)
		other, twice := named[low]
		named[low] = path
		switch {
		case low == "":
			c.doubt(path, "it has no effect, since the name of the provider is blank")
		case twice:
			c.doubt(path, "it is the provider of %s, too, and counts in its place", shown(other))
		case len(ids) == 0 && ids != nil:
			c.doubt(path, "no profile of the provider is tried, since the list is empty")
		}
		for i, id := range ids {
			switch {
			case strings.TrimSpace(id) == "":
				c.doubt(item(path, i), "it is passed over, since it is blank")
			case id != strings.TrimSpace(id):
				c.doubt(item(path, i), "no profile has the id %s, which has spaces at an end", c.quote(id))
			case slices.Contains(ids[:i], id):
				c.doubt(item(path, i), "it has no effect, since %s is there before it", c.quote(id))
			}
		}
	}
}

// credentials has the agents log in with what is in their directories.
func (c *converter) credentials() {
	s := &Store{
		Dirs: make(map[string]string), StateDir: c.paths.state, Order: c.file.Auth.Order,
		Env: c.o.variable,
	}
	c.authOrder()
	for _, id := range c.o.Isolated {
		s.Isolated = append(s.Isolated, canonical(id))
	}
	of := make(map[string]string, len(c.res.Agents)) // agents by their directories
	for i := range c.res.Agents {
		a := &c.res.Agents[i]
		a.AgentDir = filepath.Join(c.paths.state, "agents", a.ID, "agent")
		for j, e := range c.file.Agents.List {
			if c.ids[j] == a.ID && e.AgentDir != nil && strings.TrimSpace(*e.AgentDir) != "" {
				a.AgentDir = c.clean(*e.AgentDir)
				c.directory(item("agents.list", j)+".agentDir", *e.AgentDir, a.AgentDir)
			}
		}
		if other, ok := of[a.AgentDir]; ok {
			j := c.found.ids[a.ID]
			c.doubt(item("agents.list", j)+".agentDir", "agent %s has the directory of agent %s, and so "+
				"its credentials", quote(a.ID), quote(other))
		} else {
			of[a.AgentDir] = a.ID
		}
		s.Dirs[a.ID] = a.AgentDir
	}
	c.change(func(cfg *agent.Config) {
		if cfg.Models.Credentials == nil {
			cfg.Models.Credentials = s.Profiles
		}
	})
}
