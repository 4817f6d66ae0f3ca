package policy_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

func mustAdmit(t *testing.T, rules policy.Rules, c policy.Caller, q policy.Request) policy.Grant {
	t.Helper()
	c.Key = mainKey
	g, err := rules.Admit(c, q)
	require.NoError(t, err)
	return g
}

func TestModel(t *testing.T) {
	configured := policy.Rules{
		Subagents: policy.Subagents{Model: "minimax/M", AllowAgents: []string{"*"}},
		Agents: []policy.Agent{
			{ID: "main", Model: "own/main"},
			{ID: "research", Model: "own/research", Subagents: policy.Subagents{Model: "opencode/claude"}},
		},
	}
	bare := policy.Rules{Agents: []policy.Agent{{ID: "main", Model: "own/main"}}}
	live := policy.Caller{Model: "live/one"}
	none := func(string) bool { return false }
	tests := []struct {
		name  string
		rules policy.Rules
		c     policy.Caller
		q     policy.Request
		want  policy.Resolved[string]
	}{
		{
			"2.1 the request", configured, live,
			policy.Request{Model: " claude-haiku-4-5 "},
			policy.Resolved[string]{Value: "claude-haiku-4-5", Source: policy.SourceRequest},
		},
		{
			"2.2 the defaults", configured, live,
			policy.Request{},
			policy.Resolved[string]{Value: "minimax/M", Source: policy.SourceDefaults},
		},
		{
			"2.3 the agent before the defaults", configured, live,
			policy.Request{Agent: "research"},
			policy.Resolved[string]{Value: "opencode/claude", Source: policy.SourceAgent},
		},
		{
			"the caller", bare, live,
			policy.Request{},
			policy.Resolved[string]{Value: "live/one", Source: policy.SourceCaller},
		},
		{
			"2.4 the agent's own, where the caller's is not known", bare,
			policy.Caller{},
			policy.Request{},
			policy.Resolved[string]{Value: "own/main", Source: policy.SourceTarget},
		},
		{"2.5 no level", policy.Rules{}, policy.Caller{}, policy.Request{}, policy.Resolved[string]{}},
		{
			"2.6 blank is absent", configured, live,
			policy.Request{Model: "  "},
			policy.Resolved[string]{Value: "minimax/M", Source: policy.SourceDefaults},
		},
		{
			"2.20 a slash in the name", configured, live,
			policy.Request{Model: "openrouter/anthropic/claude"},
			policy.Resolved[string]{Value: "openrouter/anthropic/claude", Source: policy.SourceRequest},
		},
		{"2.8 not valid", configured, live, policy.Request{Model: "no/such", ValidModel: none}, policy.Resolved[string]{
			Value: "minimax/M", Source: policy.SourceDefaults, Warning: `model "no/such" is not valid, used "minimax/M" instead`,
		}},
		{
			"not valid, and nothing else",
			policy.Rules{},
			policy.Caller{},
			policy.Request{Model: "no/such", ValidModel: none},
			policy.Resolved[string]{
				Warning: `model "no/such" is not valid, used the Runner's default instead`,
			},
		},
		{
			"2.10 a configured model is valid without being asked about", configured, live,
			policy.Request{ValidModel: none},
			policy.Resolved[string]{Value: "minimax/M", Source: policy.SourceDefaults},
		},
		{
			"2.10 also when it is asked for", configured, live,
			policy.Request{Model: "minimax/M", ValidModel: none},
			policy.Resolved[string]{Value: "minimax/M", Source: policy.SourceRequest},
		},
		{
			"so is what the caller runs on", bare, live,
			policy.Request{Model: "live/one", ValidModel: none},
			policy.Resolved[string]{Value: "live/one", Source: policy.SourceRequest},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := mustAdmit(t, tt.rules, tt.c, tt.q)
			assert.Equal(t, tt.want, g.Model)
			assert.Equal(t, tt.want.Source == policy.SourceRequest, g.ModelApplied())
			if tt.want.Warning == "" {
				assert.Empty(t, g.Warnings)
			} else {
				assert.Equal(t, []string{tt.want.Warning}, g.Warnings)
			}
		})
	}
}

func TestModelForm(t *testing.T) {
	for _, m := range []string{"/a", "a/", "a//b", "a b", "a\tb", "a\x00b", "a\u200bb", "a\xff", strings.Repeat("m", 257)} {
		g := mustAdmit(t, policy.Rules{}, policy.Caller{}, policy.Request{Model: m})
		assert.False(t, g.ModelApplied(), "%q", m)
		assert.Len(t, g.Warnings, 1, "%q", m)
	}
	for _, m := range []string{"m", "a/b", "a/b/c", "a:b@2024", strings.Repeat("m", 256)} {
		assert.True(t,
			new(
				mustAdmit(t, policy.Rules{}, policy.Caller{}, policy.Request{Model: m}),
			).ModelApplied(),
			"%q", m)
	}
}

func TestThinking(t *testing.T) {
	rules := policy.Rules{
		Subagents: policy.Subagents{Thinking: "low", AllowAgents: []string{"*"}},
		Agents:    []policy.Agent{{ID: "main"}, {ID: "a", Subagents: policy.Subagents{Thinking: "medium"}}},
	}
	tests := []struct {
		name  string
		rules policy.Rules
		c     policy.Caller
		q     policy.Request
		want  policy.Resolved[string]
	}{
		{
			"2.11 the request", rules,
			policy.Caller{},
			policy.Request{Thinking: "high"},
			policy.Resolved[string]{Value: "high", Source: policy.SourceRequest},
		},
		{
			"2.12 the agent", rules,
			policy.Caller{},
			policy.Request{Agent: "a"},
			policy.Resolved[string]{Value: "medium", Source: policy.SourceAgent},
		},
		{
			"the defaults", rules,
			policy.Caller{Thinking: "max"},
			policy.Request{Thinking: " "},
			policy.Resolved[string]{Value: "low", Source: policy.SourceDefaults},
		},
		{
			"2.13 another word for it", rules,
			policy.Caller{},
			policy.Request{Thinking: "THINK-HARDER"},
			policy.Resolved[string]{Value: "medium", Source: policy.SourceRequest},
		},
		{
			"2.14 off is a level", rules,
			policy.Caller{},
			policy.Request{Thinking: "off"},
			policy.Resolved[string]{Value: "off", Source: policy.SourceRequest},
		},
		{
			"the caller's, as it is",
			policy.Rules{},
			policy.Caller{Thinking: "budget-4096"},
			policy.Request{},
			policy.Resolved[string]{Value: "budget-4096", Source: policy.SourceCaller},
		},
		{"no level", policy.Rules{}, policy.Caller{}, policy.Request{}, policy.Resolved[string]{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, mustAdmit(t, tt.rules, tt.c, tt.q).Thinking)
		})
	}
}

func TestParseThinking(t *testing.T) {
	for level, words := range map[string]string{
		"off":      "off OFF",
		"minimal":  "minimal min think",
		"low":      "low on enable enabled thinkhard think-hard",
		"medium":   "medium mid med thinkharder THINK-HARDER",
		"high":     "high ultra ultrathink thinkhardest highest max",
		"xhigh":    "xhigh x-high extra_high ExtraHigh",
		"adaptive": "adaptive auto",
	} {
		assert.Contains(t, policy.ThinkingLevels(), level)
		for word := range strings.FieldsSeq(words) {
			got, ok := policy.ParseThinking(word)
			assert.True(t, ok, word)
			assert.Equal(t, level, got, word)
		}
	}
	got, ok := policy.ParseThinking(" extra high\n")
	assert.True(t, ok)
	assert.Equal(t, "xhigh", got)
	for _, word := range []string{"", "banana", "highh", "0"} {
		_, ok := policy.ParseThinking(word)
		assert.False(t, ok, word)
	}
}

func TestTimeout(t *testing.T) {
	of := func(
		d time.Duration,
	) policy.Rules {
		return policy.Rules{Subagents: policy.Subagents{Timeout: d}}
	}
	for _, tt := range []struct {
		name    string
		rules   policy.Rules
		timeout time.Duration
		want    policy.Resolved[time.Duration]
	}{
		{
			"2.17 absent", of(900 * time.Second), 0,
			policy.Resolved[time.Duration]{Value: 900 * time.Second, Source: policy.SourceDefaults},
		},
		{
			"2.18 a written zero", of(900 * time.Second), policy.Off,
			policy.Resolved[time.Duration]{Source: policy.SourceRequest},
		},
		{
			"2.19 the request", of(900 * time.Second), 2 * time.Second,
			policy.Resolved[time.Duration]{Value: 2 * time.Second, Source: policy.SourceRequest},
		},
		{"off in the defaults", of(policy.Off), 0, policy.Resolved[time.Duration]{Source: policy.SourceDefaults}},
		{"no level", of(0), 0, policy.Resolved[time.Duration]{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := mustAdmit(t, tt.rules, policy.Caller{}, policy.Request{Timeout: tt.timeout})
			assert.Equal(t, tt.want, g.Timeout)
		})
	}
}

// No run takes longer than MaxTimeout, whether a program or a model asks for it.
func TestMaxTimeout(t *testing.T) {
	const most = time.Minute
	for _, tt := range []struct {
		name     string
		defaults time.Duration
		asked    time.Duration
		want     time.Duration
		source   string
		warns    bool
	}{
		{"nothing is asked for", 0, 0, most, policy.SourceDefaults, false},
		{"the defaults are longer", time.Hour, 0, most, policy.SourceDefaults, false},
		{"the defaults are off", policy.Off, 0, most, policy.SourceDefaults, false},
		{"the defaults are shorter", time.Second, 0, time.Second, policy.SourceDefaults, false},
		{"a shorter one", time.Hour, time.Second, time.Second, policy.SourceRequest, false},
		{"just as long", time.Second, most, most, policy.SourceRequest, false},
		{"a longer one", time.Second, most + 1, most, policy.SourceDefaults, true},
		{"for ever", time.Second, math.MaxInt64, most, policy.SourceDefaults, true},
		{"never", time.Second, policy.Off, most, policy.SourceDefaults, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := policy.Rules{
				Subagents: policy.Subagents{Timeout: tt.defaults, MaxTimeout: most},
			}
			for _, byModel := range []bool{false, true} {
				q := policy.Request{Timeout: tt.asked, ByModel: byModel}
				g := mustAdmit(t, rules, policy.Caller{Key: mainKey}, q)
				assert.Equal(t, tt.want, g.Timeout.Value)
				assert.Equal(t, tt.source, g.Timeout.Source)
				assert.Equal(t, tt.warns, len(g.Warnings) == 1, "%v", g.Warnings)
				q.Strict = true
				_, err := rules.Admit(policy.Caller{Key: mainKey}, q)
				if !tt.warns {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleTimeout})
				require.ErrorContains(t, err, "Rules.Subagents.MaxTimeout")
			}
		})
	}
}

func TestResolvedText(t *testing.T) {
	r := policy.Resolved[string]{Value: "a/b", Source: policy.SourceCaller}
	assert.Equal(t, "a/b", r.String())
	data, err := json.Marshal(r)
	require.NoError(t, err)
	assert.JSONEq(t, `{"value":"a/b","source":"caller"}`, string(data))
}

func TestEnums(t *testing.T) {
	var step policy.AnnounceStep
	require.NoError(t, step.UnmarshalText([]byte("TURN")))
	assert.Equal(t, policy.AnnounceTurn, step)
	var mode policy.SandboxMode
	require.NoError(t, mode.UnmarshalText([]byte("non-main")))
	assert.Equal(t, policy.SandboxNonMain, mode)
	var sight policy.Visibility
	require.NoError(t, sight.UnmarshalText([]byte("TREE "))) // 3.10
	assert.Equal(t, policy.VisibilityTree, sight)
	var verb policy.Verb
	require.NoError(t, verb.UnmarshalText([]byte("steer")))
	assert.Equal(t, policy.VerbSteer, verb)

	for _, err := range []error{
		step.UnmarshalText([]byte("bogus")), step.UnmarshalText([]byte(" turn")), mode.UnmarshalText(nil),
		sight.UnmarshalText([]byte("bogus")),
		verb.UnmarshalText([]byte("x")),
	} {
		assert.ErrorContains(t, err, "policy: unknown ")
	}
	for _, v := range []interface {
		String() string
		MarshalText() ([]byte, error)
	}{step, mode, sight, verb} {
		text, err := v.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, v.String(), string(text))
	}
	_, err := policy.Visibility(99).MarshalText()
	require.EqualError(t, err, "policy: 99 is not a visibility")
	assert.Equal(t, "Verb(99)", policy.Verb(99).String())
}
