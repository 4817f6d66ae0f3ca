package policy_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// FuzzCallerKey checks that no spelling of a key gives a session a role, or takes depth from it.
func FuzzCallerKey(f *testing.F) {
	for _, key := range []string{
		"agent:main:main", "agent:main:subagent:" + uuidA, "agent:main:spawn:x:spawn:y", "AGENT:main:SubAgent:x",
		"agent:main:telegram:direct:subagent", "agent:subagent:main", "agent:main:acp:x", "global",
	} {
		f.Add(key, 0)
		f.Add(key, 3)
	}
	f.Fuzz(func(t *testing.T, text string, stored int) {
		key, err := session.Parse(text)
		if err != nil {
			return
		}
		rules := policy.Rules{Subagents: maxDepth(policy.MaxSpawnDepth)}
		_, err = rules.Admit(policy.Caller{Key: key, Depth: stored}, policy.Request{})
		if err == nil && (key.IsSubagent() || stored > 0) {
			t.Errorf("%q at depth %d spawns without a record", key, stored)
		}
		for _, role := range []session.Role{roleMain, roleOrchestrator, roleLeaf} {
			g, err := rules.Admit(policy.Caller{Key: key, Role: role, Depth: stored},
				policy.Request{})
			if err != nil {
				if _, ok := errors.AsType[*policy.Refusal](err); !ok {
					t.Errorf("%v is no refusal", err)
				}
				continue
			}
			want := max(stored, key.Depth()) + 1
			if g.Depth != want || want > policy.MaxSpawnDepth || role == roleLeaf {
				t.Errorf("%q, %s at depth %d: a child at depth %d", key, role, stored, g.Depth)
			}
		}
	})
}

// FuzzAuthority checks that what is stored is read back as it was, or gives nothing.
func FuzzAuthority(f *testing.F) {
	f.Add([]byte(`{"version":1,"agent":"main","role":"leaf","depth":1,"sandboxed":true,"model":"a/b","tools":["read"],"delegable":[]}`))
	f.Add([]byte(`{"version":1,"agent":"main","role":"main","depth":0,"sandboxed":false,"model":"","tools":["*"],"delegable":null}`))
	f.Add([]byte(`{"tools":["*"]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, again policy.Authority
		if err := a.UnmarshalJSON(data); err != nil {
			nothing := a.Agent == "" && a.Role == 0 && a.Sandboxed &&
				a.Tools == nil && a.Delegable == nil
			if !errors.Is(err, policy.ErrCorruptAuthority) || !nothing {
				t.Errorf("%v left %+v", err, a)
			}
			return
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(again)
		if err != nil || string(second) != string(text) {
			t.Errorf("%s, then %s, %v", text, second, err)
		}
	})
}
