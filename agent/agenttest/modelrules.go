package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// modelRules are the rules of a Model, in the order of their numbers.
var modelRules = []modelRule{
	{"answer", "A call returns the whole text of the answer.", nil, checkModelAnswer},
	{
		"stream", "The chunks of a stream add up to the answer, piece by piece, and nothing comes " +
			"behind the response.",
		func(o *ModelOptions) bool { return o.Stream }, checkModelStream,
	},
	{"prompt", "The provider gets the prompt, whole.", nil, checkModelPrompt},
	{
		"conversation", "The provider gets every message, in order, as that of its speaker.",
		nil, checkModelConversation,
	},
	{
		"tools", "The provider gets every tool, with its name, its description and the schema of " +
			"its arguments, and a tool without a schema as one that takes an object.",
		nil, checkModelTools,
	},
	{
		"calls", "A response has the calls of tools in order, each with its id, its name and the " +
			"arguments as the model wrote them, also if they are not JSON, and the text beside them.",
		nil, checkModelCalls,
	},
	{
		"results", "The provider gets each result as that of its call, also if it is empty, the " +
			"call failed, or its arguments were not JSON.",
		nil, checkModelResults,
	},
	{
		"ids", "Ids that come again in a later answer do not confuse the calls.",
		nil, checkModelIDs,
	},
	{
		"usage", "Usage is that of the call: Input without what was read from a cache or written " +
			"into it, and Output.",
		nil, checkModelUsage,
	},
	{
		"model", "The provider is asked for the model without the name of the provider, and the " +
			"response names the one that ran with it.",
		nil, checkModelName,
	},
	{
		"thinking", "The provider gets the thinking level, and nothing of it without one. No level " +
			"fails the call.",
		func(o *ModelOptions) bool { return o.Thinking }, checkModelThinking,
	},
	{
		"schema", "The provider gets the schema of a typed answer.",
		func(o *ModelOptions) bool { return o.Schema }, checkModelSchema,
	},
	{
		"thoughts", "What the model thought before its calls comes back to the provider as it was, " +
			"by way of Raw.",
		func(o *ModelOptions) bool { return o.Thoughts }, checkModelThoughts,
	},
	{
		"foreign", "A Raw that is not of this Model is passed over: the message is what its text " +
			"and its calls are.",
		nil, checkModelForeign,
	},
	{
		"pictures", "The provider gets the pictures of people: the bytes with their type, or the " +
			"address.",
		func(o *ModelOptions) bool { return o.Pictures }, checkModelPictures,
	},
	{
		"tool pictures", "The provider gets the pictures of tools.",
		func(o *ModelOptions) bool { return o.ToolPictures }, checkModelToolPictures,
	},
	{
		"lost files", "A file that is gone, or of a kind that the provider does not take, does not " +
			"fail the call: the model is told in its place.",
		nil, checkModelLostFiles,
	},
	{
		"internal", "A message that is Internal is not told to the provider as one of a person.",
		func(o *ModelOptions) bool { return o.Internal }, checkModelInternal,
	},
	{
		"rate", "A provider that takes no calls for now gives a RateLimited, with the time that it " +
			"says.",
		nil, checkModelRate,
	},
	{
		"server", "A provider that has failed, or is overloaded, gives an error that is Retryable.",
		nil, func(p *modelProbe) { checkModelFaults(p, FaultServer, FaultOverload) },
	},
	{
		"cut", "A connection that breaks in the middle of an answer gives an error that is " +
			"Retryable, and no part of the answer.",
		nil, func(p *modelProbe) { checkModelFaults(p, FaultCut) },
	},
	{
		"end", "An answer that ends before it is complete gives an error that is Retryable, and no " +
			"part of the answer.",
		nil, func(p *modelProbe) { checkModelFaults(p, FaultEnd) },
	},
	{
		"stream fault", "A provider that reports in the middle of an answer that it failed gives " +
			"an error that is Retryable.",
		func(o *ModelOptions) bool { return o.Stream },
		func(p *modelProbe) { checkModelFaults(p, FaultStream) },
	},
	{
		"too long", "A conversation that is too long gives ErrTooLong, and is not Retryable.",
		nil, func(p *modelProbe) { checkModelSentinel(p, FaultTooLong, agent.ErrTooLong) },
	},
	{
		"account", "A key that is not valid gives ErrAccount, and is not Retryable.",
		nil, func(p *modelProbe) { checkModelSentinel(p, FaultAccount, agent.ErrAccount) },
	},
	{
		"request", "A request that the provider refuses gives an error with its words, which is " +
			"not Retryable.",
		nil, checkModelRequest,
	},
	{"refusal", "The words with which a model refuses are its answer.", nil, checkModelRefusal},
	{
		"length", "An answer that is cut at the limit of its length is the text that there is.",
		nil, checkModelLength,
	},
	{"cancel", "A call ends when its context ends, also at the provider.", nil, checkModelCancel},
	{
		"stop", "A stream that is told to end ends, also at the provider, and yields nothing more.",
		func(o *ModelOptions) bool { return o.Stream }, checkModelStop,
	},
	{
		"once", "One call is one request, also if it fails: the Loop makes it again.",
		nil, checkModelOnce,
	},
	{"apart", "Calls at the same time do not learn of each other.", nil, checkModelApart},
	{"request kept", "A call does not change its request.", nil, checkModelKeeps},
	{"secret", "Errors do not have the key.", nil, checkModelSecret},
	{"goroutines", "A call that ended early leaves no goroutine.", nil, checkModelGoroutines},
	{
		"bytes", "Bytes that are not UTF-8 are in no text of an answer, and in no request.",
		nil, checkModelBytes,
	},
}

// kitPieces are the pieces of most answers.
var kitPieces = []string{"It ", "is grün", ",\n\n<and> \"42\" ", "& ", "\\n", "."}

func checkModelAnswer(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	want := strings.Join(kitPieces, "")
	if got := p.answer(p.request(userSays("Hello."))); got.text() != want {
		p.fail("it returned %q, and the model said %q", got.text(), want)
	}
	if len(p.Provider.Calls()) != 1 {
		p.fail("the provider was called %d times", len(p.Provider.Calls()))
	}
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	resp, err := p.Model.Generate(p.t.Context(), p.request(userSays("Hello.")))
	if err != nil || resp == nil || resp.Text != want {
		p.fail("Generate returned %v and the error %v, want the text %q", resp, err, want)
	}
}

func checkModelStream(p *modelProbe) {
	if _, ok := p.Model.(agent.StreamModel); !ok {
		p.fail("it is not an agent.StreamModel")
	}
	p.Provider.Answer(ProviderAnswer{Text: kitPieces, Thought: "Hidden."})
	got := p.answer(p.request(userSays("Hello.")))
	if all := strings.Join(got.shown, ""); all != got.text() || len(got.shown) < len(kitPieces)/2 {
		p.fail("it showed %q, and the answer is %q", got.shown, got.text())
	}
	if got.beyond > 0 {
		p.fail("it yielded %d more chunks behind the response", got.beyond)
	}
}

func checkModelPrompt(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	req := p.request(userSays("Hello."))
	p.answer(req)
	want, got := req.Prompt.String(), p.asked().System
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		p.fail("it is %q, want %q", got, want)
	}
}

// A heard is a message that the Provider is to have been told.
type heard struct {
	role session.MessageRole
	text string
}

// hears fails the rule unless the Provider was told all of it, in this order, and each once.
func (p *modelProbe) hears(want ...heard) {
	p.t.Helper()
	call := p.asked()
	at := 0
	for _, w := range want {
		for at < len(call.Messages) && (call.Messages[at].Role != w.role ||
			!strings.Contains(call.Messages[at].Text, w.text)) {
			at++
		}
		if at == len(call.Messages) {
			p.fail("it was not told %q of the %s, in its place: it was told %s", w.text, w.role,
				told(call))
		}
		count := 0
		for _, m := range call.Messages {
			count += strings.Count(m.Text, w.text)
		}
		if count != 1 {
			p.fail("it was told %q %d times", w.text, count)
		}
	}
}

// told renders what a Provider was told.
func told(call ProviderCall) string {
	said, err := json.Marshal(call.Messages)
	if err != nil {
		return err.Error()
	}
	return string(said)
}

func checkModelConversation(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.answer(p.request(
		userSays("The first."), userSays("The second."), modelSays("The third."),
		userSays("The fourth: <b>&\u2028\"\\"), modelSays("The fifth."), modelSays("The sixth."),
		userSays("The last."),
	))
	p.hears(
		heard{session.MessageUser, "The first."}, heard{session.MessageUser, "The second."},
		heard{session.MessageAssistant, "The third."},
		heard{session.MessageUser, "The fourth: <b>&\u2028\"\\"},
		heard{session.MessageAssistant, "The fifth."},
		heard{session.MessageAssistant, "The sixth."}, heard{session.MessageUser, "The last."},
	)
	// A conversation whose beginning was left out.
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.answer(p.request(modelSays("Said before."), userSays("And now?")))
	p.hears(
		heard{session.MessageAssistant, "Said before."}, heard{session.MessageUser, "And now?"},
	)
}

// kitSchema is the schema of a tool.
const kitSchema = `{"type":"object","properties":{"city":{"type":"string","description":"<where>"},` +
	`"days":{"type":"integer","minimum":1}},"required":["city"],"additionalProperties":false}`

func checkModelTools(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	req := p.request(userSays("Hello."))
	req.Tools = []agent.Tool{
		kitTool("weather", "Weather in a city.\nIn words & figures.", kitSchema),
		kitTool("now", "The time.", ""),
	}
	req.Tools[1].Schema = nil
	p.answer(req)
	got := p.asked().Tools
	if len(got) != 2 || got[0].Name != "weather" || got[1].Name != "now" ||
		got[0].Description != req.Tools[0].Description {
		p.fail("it was told %+v", got)
	}
	if !sameJSON(got[0].Schema, []byte(kitSchema)) {
		p.fail("the schema is %s, want %s", got[0].Schema, kitSchema)
	}
	var none struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(got[1].Schema, &none) != nil || none.Type != "object" {
		p.fail("the schema of a tool without one is %s", got[1].Schema)
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// kitCalls are calls of an answer. The arguments of the third are not JSON.
var kitCalls = []agent.ToolCall{
	toolCall("call_a", "weather", `{"city": "Köln \u00e9",  "days":1.0}`),
	toolCall("call_b", "weather", `{"city":"Bonn"}`),
	toolCall("call_c", "weather", `{"city":"Bo`),
	toolCall("call_d", "now", `{}`),
}

func checkModelCalls(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: []string{"Let me ", "look."}, Calls: kitCalls})
	got := p.answer(p.request(userSays("Hello.")))
	if !slices.EqualFunc(got.resp.ToolCalls, kitCalls, equalCalls) {
		p.fail("it returned %s, want %s", showCalls(got.resp.ToolCalls), showCalls(kitCalls))
	}
	if got.text() != "Let me look." {
		p.fail("beside the calls it returned the text %q", got.text())
	}
	p.Provider.Answer(ProviderAnswer{Calls: kitCalls[:1]})
	got = p.answer(p.request(userSays("Hello.")))
	if len(got.resp.ToolCalls) != 1 || got.text() != "" {
		p.fail("one call without a text came as %q with %s", got.text(),
			showCalls(got.resp.ToolCalls))
	}
}

// equalCalls reports whether two calls are the same, byte for byte.
func equalCalls(a, b agent.ToolCall) bool {
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Args, b.Args)
}

// showCalls renders calls.
func showCalls(calls []agent.ToolCall) string {
	shown := make([]string, 0, len(calls))
	for _, c := range calls {
		shown = append(shown, fmt.Sprintf("%s %s(%s)", c.ID, c.Name, c.Args))
	}
	return strings.Join(shown, ", ")
}

func checkModelResults(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	failed := toolSays("call_c", "error: the arguments are not JSON")
	failed.Failed = true
	p.answer(p.request(
		userSays("Hello."), modelSays("I look.", kitCalls...),
		toolSays("call_a", "Sun."), toolSays("call_b", "Rain."), failed, toolSays("call_d", ""),
		modelSays("Done."), userSays("Again."),
	))
	p.hears(
		heard{session.MessageAssistant, "I look."}, heard{session.MessageTool, "Sun."},
		heard{session.MessageTool, "Rain."}, heard{session.MessageTool, failed.Text},
		heard{session.MessageAssistant, "Done."}, heard{session.MessageUser, "Again."},
	)
	results := make(map[string]string)
	for _, m := range p.asked().Messages {
		if m.Role == session.MessageTool {
			results[m.CallID] = m.Text
		}
	}
	for id, want := range map[string]string{"call_a": "Sun.", "call_b": "Rain."} {
		if results[id] != want {
			p.fail("the result of %s is %q, want %q", id, results[id], want)
		}
	}
}

func checkModelIDs(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	again := toolCall("call_1", "weather", `{"city":"Bonn"}`)
	p.answer(p.request(
		userSays("Hello."),
		modelSays("", toolCall("call_1", "weather", `{"city":"Köln"}`)),
		toolSays("call_1", "Sun."), modelSays("", again), toolSays("call_1", "Rain."),
	))
	p.hears(heard{session.MessageTool, "Sun."}, heard{session.MessageTool, "Rain."})
	var texts []string
	for _, m := range p.asked().Messages {
		for _, c := range m.Calls {
			texts = append(texts, string(c.Args))
		}
		if m.Role == session.MessageTool {
			texts = append(texts, m.Text)
		}
	}
	if len(texts) != 4 || texts[1] != "Sun." || texts[3] != "Rain." {
		p.fail("the calls and their results came as %q", texts)
	}
}

func checkModelUsage(p *modelProbe) {
	want := agent.Usage{Input: 1203, Output: 57}
	if p.o.Cache {
		want.CacheRead = 900
	}
	if p.o.CacheWrite {
		want.CacheWrite = 250
	}
	p.Provider.Answer(ProviderAnswer{Text: kitPieces, Usage: want})
	got := p.answer(p.request(userSays("Hello."))).resp.Usage
	if got != want {
		p.fail("it is %+v, want %+v", got, want)
	}
}

func checkModelName(p *modelProbe) {
	provider, model, ok := strings.Cut(p.o.Name, "/")
	if !ok {
		p.fail("ModelOptions.Name is %q, want the form provider/model", p.o.Name)
	}
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	if got := p.answer(p.request(userSays("Hello."))).resp.Model; got != p.o.Name {
		p.fail("the response says that %q ran, want %q", got, p.o.Name)
	}
	if got := p.asked().Model; got != model {
		p.fail("the provider was asked for %q, want %q", got, model)
	}
	p.Provider.Answer(ProviderAnswer{Text: kitPieces, Model: "another"})
	got := p.answer(p.request(userSays("Hello."))).resp.Model
	if want := provider + "/another"; got != want {
		p.fail("the response says that %q ran, want %q", got, want)
	}
}

func checkModelThinking(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.answer(p.request(userSays("Hello.")))
	if got := p.asked().Thinking; got != "" {
		p.fail("without a level the provider was told %q", got)
	}
	seen := make(map[string]bool)
	for _, level := range policy.ThinkingLevels() {
		p.Provider.Answer(ProviderAnswer{Text: kitPieces})
		req := p.request(userSays("Hello."))
		req.Thinking = level
		p.answer(req)
		seen[p.asked().Thinking] = true
	}
	if len(seen) < 3 {
		p.fail("of %q the provider was told only %d", policy.ThinkingLevels(), len(seen))
	}
}

func checkModelSchema(p *modelProbe) {
	const schema = `{"type":"object","properties":{"claim":{"type":"string"}},` +
		`"required":["claim"],"additionalProperties":false}`
	p.Provider.Answer(ProviderAnswer{Text: []string{`{"claim":`, `"Yes."}`}})
	req := p.request(userSays("Hello."))
	req.Schema = json.RawMessage(schema)
	got := p.answer(req)
	if asked := p.asked().Schema; !sameJSON(asked, []byte(schema)) {
		p.fail("it is %s, want %s", asked, schema)
	}
	if got.text() != `{"claim":"Yes."}` {
		p.fail("the answer is %q", got.text())
	}
	for _, schema := range []string{`{"type":"array","items":{"type":"string"}}`, kitSchema} {
		p.Provider.Answer(ProviderAnswer{Text: []string{`[]`}})
		req.Schema = json.RawMessage(schema)
		p.answer(req)
	}
}

func checkModelThoughts(p *modelProbe) {
	const thought = "First <this>,\nthen \"that\" & \u2028 grün."
	p.Provider.Answer(ProviderAnswer{
		Thought: thought, Text: []string{"I look."}, Calls: kitCalls[:2],
	})
	got := p.answer(p.request(userSays("Hello.")))
	if strings.Contains(got.text(), "First") {
		p.fail("the answer has the thought: %q", got.text())
	}
	if !json.Valid(got.resp.Raw) {
		p.fail("Raw is not JSON: %q", got.resp.Raw)
	}
	said := modelSays(got.text(), got.resp.ToolCalls...)
	said.Raw = got.resp.Raw
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.answer(p.request(userSays("Hello."), said,
		toolSays("call_a", "Sun."), toolSays("call_b", "Rain.")))
	p.hears(heard{session.MessageAssistant, "I look."}, heard{session.MessageTool, "Sun."})
	var thoughts []string
	var calls []agent.ToolCall
	for _, m := range p.asked().Messages {
		if m.Thought != "" {
			thoughts = append(thoughts, m.Thought)
		}
		calls = append(calls, m.Calls...)
	}
	if len(thoughts) != 1 || thoughts[0] != thought {
		p.fail("the provider got the thoughts %q, want %q", thoughts, thought)
	}
	if len(calls) != 2 {
		p.fail("the provider got the calls %s", showCalls(calls))
	}
}

func checkModelForeign(p *modelProbe) {
	for _, raw := range []string{
		`{"another":{"content":"Not this."}}`, `["Not this."]`, `null`, `"Not this."`, `7`, `{}`,
	} {
		p.Provider.Answer(ProviderAnswer{Text: kitPieces})
		said := modelSays("I look.", kitCalls[0])
		said.Raw = json.RawMessage(raw)
		p.answer(p.request(userSays("Hello."), said, toolSays("call_a", "Sun.")))
		p.hears(heard{session.MessageAssistant, "I look."}, heard{session.MessageTool, "Sun."})
		if strings.Contains(told(p.asked()), "Not this.") {
			p.fail("the provider got the Raw %s", raw)
		}
	}
}

// kitPicture is a picture of one pixel.
var kitPicture = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06" +
	"\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00" +
	"\x00\x00\x00IEND\xaeB`\x82")

// pictureOf returns the picture of kitPicture as a person sends it.
func pictureOf() agent.Part {
	return agent.Part{
		Kind: session.PartImage, MediaType: "image/png", Name: "dot.png", Data: kitPicture,
	}
}

// hasPicture fails the rule unless a message of a role has the picture.
func (p *modelProbe) hasPicture(want ProviderPart) {
	p.t.Helper()
	for _, m := range p.asked().Messages {
		for _, part := range m.Parts {
			if bytes.Equal(part.Data, want.Data) && part.URL == want.URL &&
				(part.URL != "" || part.MediaType == want.MediaType) {
				return
			}
		}
	}
	p.fail("the provider was not given it: it was told %s", told(p.asked()))
}

func checkModelPictures(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.withFiles(pictureOf(), func(*agent.ModelRequest, agent.Part) {})
	p.hasPicture(ProviderPart{MediaType: "image/png", Data: kitPicture})
	p.hears(heard{session.MessageUser, "Look."})
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	const address = "https://example.com/dot.png?a=1&b=2"
	said := userSays("And this?")
	said.Parts = []agent.Part{{Kind: session.PartImage, URL: address}}
	p.answer(p.request(said))
	p.hasPicture(ProviderPart{URL: address})
}

func checkModelToolPictures(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	p.withFiles(pictureOf(), func(req *agent.ModelRequest, stored agent.Part) {
		result := toolSays("call_a", "A picture.")
		result.Parts = []agent.Part{stored}
		req.Messages = []agent.Message{
			userSays("Hello."), modelSays("", kitCalls[0], kitCalls[1]), result,
			toolSays("call_b", "Rain."),
		}
	})
	p.hasPicture(ProviderPart{MediaType: "image/png", Data: kitPicture})
	p.hears(heard{session.MessageTool, "A picture."}, heard{session.MessageTool, "Rain."})
}

func checkModelLostFiles(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	lost := session.File{Hash: strings.Repeat("0a", 32), Size: 70}
	said := userSays("Look.")
	said.Parts = []agent.Part{
		{Kind: session.PartImage, MediaType: "image/png", Name: "dot.png", File: lost},
		{Kind: session.PartVideo, MediaType: "video/x-odd", Name: "film.odd", File: lost},
	}
	alone := userSays("")
	alone.Parts = said.Parts[1:]
	p.answer(p.request(said, modelSays("I see nothing."), alone))
	all := told(p.asked())
	for _, name := range []string{"dot.png", "film.odd"} {
		if !strings.Contains(all, name) {
			p.fail("the model is not told that %s was left out: it was told %s", name, all)
		}
	}
}

func checkModelInternal(p *modelProbe) {
	p.Provider.Answer(ProviderAnswer{Text: kitPieces})
	inner := userSays("It ended.")
	inner.Internal = true
	p.answer(p.request(userSays("Hello."), modelSays("Yes."), inner))
	messages := p.asked().Messages
	first, last := messages[0], messages[len(messages)-1]
	if !strings.Contains(last.Text, "It ended.") ||
		first.Role == last.Role && first.Name == last.Name {
		p.fail("it was told as %s %q, and a person's is %s %q", last.Role, last.Name, first.Role,
			first.Name)
	}
}
