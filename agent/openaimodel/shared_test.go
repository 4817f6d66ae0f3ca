package openaimodel_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider/providertest"

	"github.com/offshoot-sdk/offshoot/agent/openaimodel"
)

// forms are the APIs of the client before the forms of its provider.
var forms = map[openaimodel.API]providertest.Form{
	openaimodel.APIChat: {
		Client: "openaimodel", New: opener(openaimodel.APIChat), Model: "openai/m",
		Begin: chunk(`{"role":"assistant","content":""}`) + chunk(`{"content":"Noon."}`),
		Finish: "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{}," +
			"\"finish_reason\":\"stop\"}]}\n\n",
		Rest: "data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":3," +
			"\"completion_tokens\":7}}\n\ndata: [DONE]\n\n",
		Floods: chatFloods, Still: chatStill,
		Fault: "data: {\"error\":{\"message\":\"Overloaded\",\"code\":\"overloaded\"}}\n\n",
	},
	openaimodel.APIResponses: {
		Client: "openaimodel", New: opener(openaimodel.APIResponses), Model: "openai/m",
		Begin: event("response.created", `"response":{"model":"m"}`) +
			event("response.output_text.delta", `"item_id":"m","delta":"Noon."`),
		Finish: event("response.completed", `"response":{"model":"m","usage":{"output_tokens":7}}`),
		Floods: responseFloods, Still: responseStill,
		TwoCalls: `{"api":"responses","provider":"openai","items":[` +
			`{"type":"function_call","call_id":"a","name":"now","arguments":"{\"n\":1}"},` +
			`{"type":"function_call","call_id":"a","name":"now","arguments":"{\"n\":2}"}]}`,
		Fault: event("error", `"code":"server_is_overloaded","message":"Overloaded"`),
	},
}

// opener returns what makes a Model of an API.
func opener(api openaimodel.API) func(providertest.Config) (agent.StreamModel, error) {
	return func(cfg providertest.Config) (agent.StreamModel, error) {
		return openaimodel.New(openaimodel.Config{
			API: api, BaseURL: cfg.BaseURL, HTTP: cfg.HTTP, Key: cfg.Key, Idle: cfg.Idle,
			MaxBytes: cfg.MaxBytes,
		})
	}
}

// each runs a shared test with each of the forms.
func each(t *testing.T, test func(*testing.T, providertest.Form)) {
	for api, f := range forms {
		t.Run(string(api), func(t *testing.T) { test(t, f) })
	}
}

func TestEnds(t *testing.T)      { each(t, providertest.TestEnds) }
func TestSilence(t *testing.T)   { each(t, providertest.TestSilence) }
func TestStillness(t *testing.T) { each(t, providertest.TestStillness) }
func TestFloods(t *testing.T)    { each(t, providertest.TestFloods) }
func TestLines(t *testing.T)     { each(t, providertest.TestLines) }
func TestHangs(t *testing.T)     { each(t, providertest.TestHangs) }
func TestHangsBehindTheEnd(t *testing.T) {
	each(t, providertest.TestHangsBehindTheEnd)
}
func TestFalls(t *testing.T)     { each(t, providertest.TestFalls) }
func TestLeft(t *testing.T)      { each(t, providertest.TestLeft) }
func TestKeys(t *testing.T)      { each(t, providertest.TestKeys) }
func TestAddresses(t *testing.T) { each(t, providertest.TestAddresses) }
func TestNames(t *testing.T)     { each(t, providertest.TestNames) }
func TestRedirects(t *testing.T) { each(t, providertest.TestRedirects) }
func TestSchemas(t *testing.T)   { each(t, providertest.TestSchemas) }
func TestIDs(t *testing.T)       { each(t, providertest.TestIDs) }
