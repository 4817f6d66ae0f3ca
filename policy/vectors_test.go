package policy_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/vectors"
	"github.com/offshoot-sdk/offshoot/policy"
)

// Where the rules differ from the reference system on purpose, and why.
var (
	differentLists = map[string]string{
		"constructor": "the reference looks names up in an object that has this one by nature, and gets a null",
		"__proto__":   "the reference looks names up in an object that has this one by nature, and gets an object",
	}
	differentPolicies = map[string]string{
		`{"allow":[""]}`:      "a list of nothing but blanks allows everything in the reference; here it allows nothing, and Validate refuses it",
		`{"allow":["","  "]}`: "the same",
	}
	differentConfigs = map[string]string{
		"announceTimeoutMs":                     "no limit of policy: an attempt to deliver that hangs holds only its own destination",
		"config/archiveAfterMinutes/1000000000": "a time.Duration ends at 292 years, and policy.Off says never",
	}
)

func TestToolPolicyVectors(t *testing.T) {
	type row struct {
		Kind     string          `json:"kind"`
		List     []string        `json:"list"`
		Expanded []any           `json:"expanded"`
		Tools    []string        `json:"tools"`
		Tool     string          `json:"tool"`
		Policy   json.RawMessage `json:"policy"`
		Kept     []string        `json:"kept"`
		Allowed  bool            `json:"allowed"`
	}
	used := make(map[string]bool)
	global := func(raw json.RawMessage) policy.Rules {
		var p struct{ Allow, Deny []string }
		require.NoError(t, json.Unmarshal(raw, &p))
		return policy.Rules{Tools: policy.ToolPolicy{Allow: p.Allow, Deny: p.Deny}}
	}
	compact := func(raw json.RawMessage) string { return strings.ReplaceAll(string(raw), ": ", ":") }
	main := policy.Subject{Role: roleMain}
	var tools []string
	for _, r := range vectors.Read[row](t, "tool-policy.json", 109) {
		switch r.Kind {
		case "tools": // what the rows of the kind "filter" choose from
			tools = r.Tools
		case "expand":
			if key := strings.Join(r.List, ","); differentLists[key] != "" {
				used[key] = true
				continue
			}
			var rules policy.Rules
			got := rules.ExpandTools(r.List)
			require.Len(t, got, len(r.Expanded), "%q", r.List)
			for i := range got {
				assert.Equal(t, r.Expanded[i], got[i], "%q", r.List)
			}
		case "filter":
			rules := global(r.Policy)
			require.NotEmpty(t, tools)
			got := rules.FilterTools(main, tools)
			if key := strings.ReplaceAll(compact(r.Policy), ", ", ","); differentPolicies[key] != "" {
				used[key] = true
				assert.Empty(t, got)
				require.Error(t, rules.Validate())
				continue
			}
			assert.ElementsMatch(t, r.Kept, got, "%s", r.Policy)
		case "match":
			rules := global(r.Policy)
			assert.Equal(t, r.Allowed, len(rules.FilterTools(main, []string{r.Tool})) == 1, "%q under %s",
				r.Tool, r.Policy)
		default:
			t.Fatalf("unknown kind %q", r.Kind)
		}
	}
	assert.ElementsMatch(t, slices.Concat(slices.Collect(maps.Keys(differentLists)),
		slices.Collect(maps.Keys(differentPolicies))),
		slices.Collect(maps.Keys(used)), "a difference that no row shows")
}

// Every row sets one limit to an integer other than zero. What else a configuration file may hold
// does not concern policy.
func TestConfigVectors(t *testing.T) {
	type row struct {
		Name   string `json:"name"`
		Config any    `json:"config"`
		OK     bool   `json:"ok"`
	}
	checked, used := 0, make(map[string]bool)
	for _, r := range vectors.Read[row](t, "config.json", 88) {
		field, value, ok := limitOf(r.Config)
		require.True(t, ok, r.Name)
		switch {
		case differentConfigs[field] != "":
			used[field] = true
			continue
		case differentConfigs[r.Name] != "":
			used[r.Name] = true
			continue
		}
		checked++
		rules, ok := withLimit(field, value)
		assert.Equal(t, r.OK, ok && rules.Validate() == nil, r.Name)
	}
	assert.Greater(t, checked, 40)
	assert.Len(t, used, len(differentConfigs), "a difference that no row shows")
}

// limitOf returns the one number under agents.defaults.subagents, if that is all there is.
func limitOf(config any) (field string, value float64, ok bool) {
	for _, name := range []string{"agents", "defaults", "subagents"} {
		object, _ := config.(map[string]any)
		if len(object) != 1 {
			return "", 0, false
		}
		config = object[name]
	}
	object, _ := config.(map[string]any)
	if len(object) != 1 {
		return "", 0, false
	}
	for name, v := range object {
		number, isNumber := v.(float64)
		return name, number, isNumber
	}
	return "", 0, false
}

// withLimit returns rules with a limit set; ok is false if Go's type for it cannot hold the value.
func withLimit(field string, value float64) (r policy.Rules, ok bool) {
	s := &r.Subagents
	duration := func(unit time.Duration) time.Duration {
		ok = math.Abs(value) < float64(math.MaxInt64/int64(unit))
		return time.Duration(value) * unit
	}
	ok = true
	switch field {
	case "maxConcurrent":
		s.MaxConcurrent = int(value)
	case "maxSpawnDepth":
		s.MaxSpawnDepth = int(value)
	case "maxChildrenPerAgent":
		s.MaxChildren = int(value)
	case "archiveAfterMinutes":
		s.ArchiveAfter = duration(time.Minute)
	case "runTimeoutSeconds":
		s.Timeout = duration(time.Second)
	default:
		ok = false
	}
	return r, ok
}
