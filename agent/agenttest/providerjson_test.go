package agenttest_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/agenttest"
)

// A shape has a type of value in each of its members.
type shape struct {
	inner

	Name  string          `json:"name" need:"*"`
	Items []item          `json:"items"`
	Maybe *item           `json:"maybe"`
	Bytes []byte          `json:"bytes"`
	Later json.RawMessage `json:"later"`
}

type inner struct {
	Size int `json:"size"`
}

type item struct {
	Type string `json:"type" need:"*"`
	Text string `json:"text" need:"text"`
	URL  string `json:"url" need:"image,file"`
}

type spoken struct {
	Role string `json:"role" need:"*"`
	ID   string `json:"id" need:"tool"`
}

type plain struct {
	Type string `json:"type"`
	ID   string `json:"id" need:",message"`
}

// A request has all members that its type needs and no others, at every depth.
func TestDecodeRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"a"}`: "",
		`{"name":"a","size":1,"items":[],"maybe":null,"bytes":"AA==","later":{"x":1}}`: "",
		`{"name":"a","items":[{"type":"text","text":""},{"type":"file","url":"u"}]}`:   "",
		`{"name":"a","items":[{"type":"other"}]}`:                                      "",

		`{}`:                      "the member at.name is missing",
		`{"name":null}`:           "the member at.name is missing",
		`{"Name":"a","name":"a"}`: "the member at.Name is unknown",
		`{"name":"a","odd":1}`:    "the member at.odd is unknown",
		`{"name":"a","inner":{}}`: "the member at.inner is unknown",
		`{"name":"a","items":[{"type":"text","text":""},{"type":"image"}]}`: "the member at.items[1].url is missing",
		`{"name":"a","items":[{}]}`:                                         "the member at.items[0].type is missing",
		`{"name":"a","maybe":{"type":"text"}}`:                              "the member at.maybe.text is missing",
		`{"name":"a","maybe":{"type":"x","more":{"y":1}}}`:                  "the member at.maybe.more is unknown",
		`{"name":1}`:                           "cannot unmarshal number",
		`{"name":"a","items":{"type":"text"}}`: "cannot unmarshal object",
		`{"name":"a"} {}`:                      "invalid character",
		`[`:                                    "unexpected end",
		`{"name":"a","items":[{"type":7,"text":"","url":1}`: "unexpected end",
	} {
		var s shape
		err := agenttest.DecodeRequest([]byte(body), &s, "at")
		if want == "" {
			require.NoError(t, err, body)
			require.Equal(t, "a", s.Name)
			continue
		}
		require.ErrorContains(t, err, want, body)
	}
	var member *agenttest.MemberError
	require.ErrorAs(t, agenttest.DecodeRequest([]byte(`{"role":"tool"}`), &spoken{}, ""), &member)
	require.Equal(t, agenttest.MemberError{Path: "id"}, *member)
	require.NoError(t, agenttest.DecodeRequest([]byte(`{"role":"user"}`), &spoken{}, ""))
	require.ErrorAs(t, agenttest.DecodeRequest([]byte(`{}`), &plain{}, ""), &member)
	require.NoError(t, agenttest.DecodeRequest([]byte(`{"type":"call"}`), &plain{}, ""))
}

// Each member is left out once, at every depth, and is back for the next.
func TestEachMember(t *testing.T) {
	got := make(map[string]string)
	for path, without := range agenttest.EachMember([]byte(`{"a":1,"b":[{"c":2},[{"d":{}}]]}`)) {
		got[path] = string(without)
	}
	require.Equal(t, map[string]string{
		"a":         `{"b":[{"c":2},[{"d":{}}]]}`,
		"b":         `{"a":1}`,
		"b[0].c":    `{"a":1,"b":[{},[{"d":{}}]]}`,
		"b[1][0].d": `{"a":1,"b":[{"c":2},[{}]]}`,
	}, got)
	for path := range agenttest.EachMember([]byte(`{"a":{"b":1},"c":2}`)) {
		require.Equal(t, "a", path)
		break
	}
	for range agenttest.EachMember([]byte(`{`)) {
		t.Fatal("it is not JSON")
	}
}
