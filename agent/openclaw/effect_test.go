package openclaw

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// samples are values for members for which any value of their type would be wrong or say nothing.
var samples = map[string]string{
	"agents.list[].id":                      `"other"`,
	"agents.defaults.thinkingDefault":       `"low"`,
	"agents.defaults.subagents.thinking":    `"low"`,
	"agents.list[].subagents.thinking":      `"low"`,
	"agents.defaults.subagents.allowAgents": `["main"]`,
	"agents.defaults.userTimezone":          `"UTC"`,
	"agents.list[].subagents.allowAgents":   `["main"]`,
	"tools.groups":                          `{"group:x": ["y"]}`,
	"channels{}.groups{}.tools.alsoAllow":   `["x"], allow: ["read"]`,
}

// silent are members that have no effect by themselves.
var silent = map[string]string{
	"agents.list[].default":          "there is one agent, which is the default",
	"models.providers{}.models[].id": "it says of which model the cost is",
	"agents.list[].agentDir":         "TestPlaces",
}

// leaves returns the members of a type that have no members, as a path and the text of a file.
func leaves(typ reflect.Type, path, before, after string, yield func(path, text string)) {
	typ = deref(typ)
	switch {
	case typ == reflect.TypeFor[anything]():
	case typ == reflect.TypeFor[modelRef]():
		yield(path, before+`{primary: "p/m"}`+after)
	case typ.Kind() == reflect.Struct:
		for name, m := range fieldsOf(typ) {
			if _, not := m.Tag.Lookup("not"); not {
				continue
			}
			at := strings.TrimPrefix(path+"."+name, ".")
			open, end := "{", "}"
			if typ == reflect.TypeFor[entry]() && name != "id" {
				open = `{id: "main", `
			}
			if typ == reflect.TypeFor[cost]() {
				end = `}, id: "m"`
			}
			if deref(m.Type).Kind() == reflect.Struct || m.Type.Kind() == reflect.Map ||
				m.Type.Kind() == reflect.Slice && m.Type.Elem().Kind() == reflect.Struct {
				if s, ok := samples[at]; ok {
					yield(at, before+open+name+": "+s+end+after)
					continue
				}
				leaves(m.Type, at, before+open+name+": ", end+after, yield)
				continue
			}
			yield(at, before+open+name+": "+sample(at, m)+end+after)
		}
	case typ.Kind() == reflect.Map && typ.Elem().Kind() == reflect.Struct:
		leaves(typ.Elem(), path+"{}", before+"{k: ", "}"+after, yield)
	case typ.Kind() == reflect.Map && typ.Elem().Kind() == reflect.Slice:
		yield(path, before+`{k: ["x"]}`+after)
	case typ.Kind() == reflect.Map:
		yield(path, before+`{k: "x"}`+after)
	default:
		leaves(typ.Elem(), path+"[]", before+"[", "]"+after, yield)
	}
}

func deref(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// sample returns a value for a member.
func sample(path string, m reflect.StructField) string {
	if s, ok := samples[path]; ok {
		return s
	}
	typ := deref(m.Type)
	switch typ.Kind() {
	case reflect.Bool:
		return "true"
	case reflect.Int64, reflect.Float64:
		return "3"
	case reflect.Slice:
		return `["x"]`
	default:
		words := strings.Split(m.Tag.Get("enum"), ",")
		if word := words[len(words)-1]; word != "" {
			return `"` + word + `"`
		}
		return `"x"`
	}
}

// digest returns all that a Result sets.
func digest(t *testing.T, r *Result) string {
	t.Helper()
	c, rules := r.Config, r.Config.Rules
	host, valid := *c.Prompts.SkillHost, c.Models.Valid != nil
	p, err := c.Models.Credentials(context.Background(), "main")
	require.NoError(t, err)
	data, err := json.Marshal([]any{
		rules.Subagents, rules.Agents, rules.Budget, rules.RequestBudget, rules.MaxSessions,
		rules.KeepArchives, rules.SubagentTools, rules.Tools, rules.DefaultDeny, rules.Groups,
		rules.Chats, rules.Owners, rules.OwnerOnly, rules.Senders,
		rules.Attachments, rules.Sandbox.Mode, rules.Sandbox.Tools,
		rules.Sandbox.SeeAll, rules.Visibility, rules.AgentToAgent,
		c.DeliverTimeout, c.Models.Model, c.Models.Thinking, c.Models.Prices, valid,
		c.Prompts.Input.Limits.File, c.Prompts.Input.Limits.Total, c.Prompts.Input.Env,
		c.Prompts.Input.Aliases, len(c.Prompts.Skills), host.Bundled, host.Config,
		c.Threads.Bindings, fmt.Sprint(len(c.Threads.Channels)), r.Agents, p.Order,
	})
	require.NoError(t, err)
	return string(data)
}

// Every member that is taken changes what is set, and is neither listed nor doubted away.
func TestEveryMemberHasAnEffect(t *testing.T) {
	o := Options{
		Home: t.TempDir(), Env: func(string) (string, bool) { return "", false }, Strict: true,
		OpenDir: func(string) (fs.FS, error) { return fstest.MapFS{}, nil },
	}
	read := func(text string) *Result {
		t.Helper()
		r, err := Parse([]byte(text), o)
		require.NoError(t, err, text)
		require.Empty(t, r.Untaken, text)
		return r
	}
	nothing := digest(t, read(`{}`))
	alone := digest(t, read(`{agents: {list: [{id: "main"}]}}`))
	count := 0
	leaves(reflect.TypeFor[document](), "", "", "", func(path, text string) {
		count++
		if _, ok := silent[path]; ok {
			read(text)
			return
		}
		got := digest(t, read(text))
		require.NotEqual(t, nothing, got, "%s: %s", path, text)
		require.NotEqual(t, alone, got, "%s: %s", path, text)
	})
	require.Greater(t, count, 100)
}

// No text of a file makes it panic, and what is refused is refused with places.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{agents: {list: [{id: "a", subagents: {allowAgents: ["*"]}}, {id: "A"}]}}`,
		`{agent: {model: "x"}, agents: {entries: {a: {}}}, session: {threadBindings: {ttlHours: 1}}}`,
		`{tools: {deny: ["group:x"], byProvider: {"": {profile: "full"}}}, channels: {"": {groups: {"": 1}}}}`,
		`{agents: "x", agent: {a: 1}, channels: [], session: 5}`,
		`{agents: {list: [{id: "main", workspace: "${A}", sandbox: {mode: "all"}}]}}`,
	} {
		f.Add(s, true)
	}
	o := Options{
		Home: "/home/me", Env: func(string) (string, bool) { return "x", true },
		OpenDir: func(string) (fs.FS, error) { return nil, fs.ErrNotExist },
	}
	f.Fuzz(func(t *testing.T, s string, strict bool) {
		o := o
		o.Strict = strict
		r, err := Parse([]byte(s), o)
		if err == nil {
			require.NotEmpty(t, r.Agents)
			require.NoError(t, r.Config.Rules.Validate())
			return
		}
		require.Nil(t, r)
		all, ok := err.(FieldErrors) //nolint:errorlint // the only error of Parse
		require.True(t, ok)
		for _, e := range all {
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			require.Less(t, len(e.Reason), 2000)
		}
	})
}
