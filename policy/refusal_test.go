package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
)

func TestRefusalJSON(t *testing.T) {
	var rules policy.Rules
	_, err := rules.Admit(policy.Caller{Key: mainKey, Children: 5}, policy.Request{})
	data, err := json.Marshal(err)
	require.NoError(t, err)
	assert.JSONEq(t, `{"rule":"maxChildrenPerAgent","asked":"6","limit":"5",`+
		`"field":"Rules.Subagents.MaxChildren","path":"agents.defaults.subagents.maxChildrenPerAgent"}`, string(data))
}

// A rule is a plain word when it is printed.
func TestRulePrintsItsName(t *testing.T) {
	assert.Equal(t, "maxSpawnDepth", fmt.Sprint(policy.RuleDepth))
	assert.Equal(t, "maxSpawnDepth", policy.RuleDepth.String())
	assert.NotImplements(t, (*error)(nil), policy.RuleDepth)
}

// errors.Is compares the rule, and the operation if the target names one.
func TestRefusalIs(t *testing.T) {
	steer := &policy.Refusal{Op: "steer", Rule: policy.RuleControl, Asked: "x", Limit: "y", Path: "z"}
	err := fmt.Errorf("wrapped: %w", steer)
	assert.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleControl})
	assert.ErrorIs(t, err, &policy.Refusal{Op: "steer", Rule: policy.RuleControl})
	for _, target := range []error{
		&policy.Refusal{Rule: policy.RuleDepth},
		&policy.Refusal{Op: "stop", Rule: policy.RuleControl},
		&policy.Refusal{Op: "steer"},
		&policy.Refusal{},
		(*policy.Refusal)(nil),
		errors.New("policy: steer refused by control"),
	} {
		assert.NotErrorIs(t, err, target)
	}
}

// What was asked is masked before the text of a refusal cuts it.
func TestMaskedRefusal(t *testing.T) {
	const secret = "ghp_secret"
	mask := func(s string) string { return strings.ReplaceAll(s, secret, "***") }
	for n := range 110 {
		r := &policy.Refusal{Rule: policy.RuleTarget, Asked: strings.Repeat("x", n) + secret}
		masked := r.Masked(mask)
		require.Equal(t, strings.Repeat("x", n)+"***", masked.Asked)
		require.NotContains(t, masked.Error(), "ghp")
		require.ErrorIs(t, masked, r)
		require.Equal(t, r.Asked, r.Masked(nil).Asked)
	}
}
