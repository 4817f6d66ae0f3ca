package openaimodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/provider"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// An API is one of the two ways to call a model.
type API string

// The APIs.
const (
	// APIResponses is OpenAI's own: what a model thought before its calls comes back to it. It is
	// the default.
	APIResponses API = "responses"
	// APIChat is Chat Completions, which other servers have, too.
	APIChat API = "chat"
)

// DefaultBaseURL is where OpenAI is.
const DefaultBaseURL = "https://api.openai.com/v1"

// A Config says where a Model is. The zero Config is one of OpenAI without a key.
type Config struct {
	// BaseURL is where the server is, up to what stands before "/responses" or
	// "/chat/completions": an absolute http or https address without a user, a query and a
	// fragment. Empty: DefaultBaseURL. Nothing is read from the environment.
	BaseURL string
	// Key returns the key for a call. It is called before each, so that a key may be renewed. Nil:
	// calls have no key. What it returns with an error fails the call. White space around a
	// key, such as the end of a line, is left out, and a line break in it is an error.
	Key func(ctx context.Context) (string, error)
	// HTTP makes the requests. Nil: http.DefaultClient. A Timeout of it ends an answer that takes
	// longer. Its CheckRedirect is not asked: a redirect fails the call, see [provider.OneRequest].
	// A call does not wait for one that ignores the end of its ctx, see [provider.Apart].
	HTTP *http.Client
	// Provider is what stands before the slash in the names of models. Empty: "openai".
	Provider string
	// Model is called for a session that has none. It is a name with or without the Provider.
	// Empty: such a call fails.
	Model string
	// API is how the server is called. Empty: APIResponses.
	API API
	// MaxTokens is how many tokens an answer has at most, those of thoughts included. 0: as many as
	// the provider allows.
	MaxTokens int64
	// MaxBytes is how many bytes of an answer are read, with what stands around each of its pieces:
	// from 1. A call whose answer has more fails with a *[provider.SizeError], which is not worth
	// another try. 0: provider.DefaultMaxBytes.
	MaxBytes int64
	// Idle is how long the server may say nothing of its answer in the middle of a call before that
	// fails, which is worth another try. Empty pieces and signs of life say nothing. 0:
	// provider.DefaultIdle; negative: without a limit.
	Idle time.Duration
}

// A Model calls one provider. Its methods may be called from several goroutines at once.
type Model struct {
	cfg       Config
	chat      openai.ChatCompletionService
	responses responses.ResponseService
}

var _ agent.StreamModel = (*Model)(nil)

// New returns a Model of a Config. It starts nothing and calls nothing. The error is a
// *[spawn.InputError] that names the field.
func New(cfg Config) (*Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, DefaultBaseURL)
	cfg.Provider = cmp.Or(cfg.Provider, "openai")
	cfg.API = cmp.Or(cfg.API, APIResponses)
	bad := func(field, reason string) error {
		return &spawn.InputError{Field: "openaimodel.Config." + field, Reason: reason}
	}
	err := provider.CheckBaseURL(cfg.BaseURL)
	switch {
	case err != nil:
		return nil, bad("BaseURL", err.Error())
	case strings.Contains(cfg.Provider, "/"):
		return nil, bad("Provider", fmt.Sprintf("%q has a slash", cfg.Provider))
	case !slices.Contains([]API{APIResponses, APIChat}, cfg.API):
		return nil, bad("API", fmt.Sprintf("%q is neither %q nor %q", cfg.API, APIResponses, APIChat))
	case cfg.MaxTokens < 0:
		return nil, bad("MaxTokens", fmt.Sprintf("%d is negative", cfg.MaxTokens))
	case cfg.MaxBytes < 0:
		return nil, bad("MaxBytes", fmt.Sprintf("%d is negative", cfg.MaxBytes))
	}
	if cfg.Model != "" {
		if _, err := provider.Name(cfg.Provider, "", cfg.Model); err != nil {
			return nil, bad("Model", err.Error())
		}
	}
	cfg.HTTP = provider.Streamed(provider.ValidUTF8(provider.Bounded(
		provider.OneRequest(cfg.HTTP, "openaimodel"), "openaimodel", cfg.MaxBytes)),
		"openaimodel", say)
	options := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL), option.WithHTTPClient(cfg.HTTP), option.WithMaxRetries(0),
	}
	return &Model{
		cfg: cfg, chat: openai.NewChatCompletionService(options...),
		responses: responses.NewResponseService(options...),
	}, nil
}

// Generate implements agent.Model.
func (m *Model) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (resp *agent.ModelResponse, err error) {
	for chunk, failed := range m.Stream(ctx, req) {
		resp, err = chunk.Response, failed
	}
	return resp, err
}

// Stream implements agent.StreamModel. An error is a *[provider.Error] where the provider has
// answered with one.
func (m *Model) Stream(
	ctx context.Context, req *agent.ModelRequest,
) iter.Seq2[agent.ModelChunk, error] {
	return func(yield func(agent.ModelChunk, error) bool) {
		isStopped := false
		resp, err := m.call(ctx, req, func(text string) bool {
			isStopped = !yield(agent.ModelChunk{Text: text}, nil)
			return !isStopped
		})
		switch {
		case isStopped:
		case err != nil:
			yield(agent.ModelChunk{}, err)
		default:
			yield(agent.ModelChunk{Response: resp}, nil)
		}
	}
}

// errStopped says that the Loop wants no more of a stream.
var errStopped = errors.New("openaimodel: the stream was told to end")

// call makes a call, and shows the text of the answer as it comes.
func (m *Model) call(
	ctx context.Context, req *agent.ModelRequest, show func(string) bool,
) (*agent.ModelResponse, error) {
	name, err := provider.Name(m.cfg.Provider, req.Model, m.cfg.Model)
	if err != nil {
		return nil, err
	}
	level, err := provider.Thinking(req.Thinking)
	if err != nil {
		return nil, err
	}
	key, err := m.key(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() {
		if value := recover(); value != nil { // of the HTTP of the program
			panic(provider.MaskedPanic(value, key))
		}
	}()
	c := &call{Model: m, req: req, name: name, level: level, show: show}
	ctx, watch := provider.Begin(ctx, "openaimodel", m.cfg.Idle)
	defer watch.End()
	c.watch = watch
	resp, err := c.make(ctx, option.WithAPIKey(key))
	if err != nil {
		return nil, provider.Masked(ctx, c.errorOf(ctx, err), key)
	}
	resp.Model = provider.Ran(m.cfg.Provider, name, resp.Model)
	return resp, nil
}

// key returns the key for a call.
func (m *Model) key(ctx context.Context, req *agent.ModelRequest) (string, error) {
	if m.cfg.Key == nil {
		return "", nil
	}
	given, err := provider.Apart(ctx, req, "openaimodel", nil, func(
		ctx context.Context, _ func(string) bool, _ func(string),
	) (string, error) {
		return m.cfg.Key(ctx)
	})
	key := given
	if err == nil {
		key, err = provider.CheckKey(given)
	}
	if err != nil {
		return "", provider.Masked(ctx, fmt.Errorf("openaimodel: Config.Key: %w", err), given)
	}
	return key, nil
}

// A call is one call under way.
type call struct {
	*Model

	req   *agent.ModelRequest
	name  string // of the model, in the provider's words
	level string // of thinking
	show  func(string) bool
	watch *provider.Watch
}

// make makes the call in the way of the API.
func (c *call) make(
	ctx context.Context, key option.RequestOption,
) (*agent.ModelResponse, error) {
	if c.cfg.API == APIChat {
		return c.makeChat(ctx, key)
	}
	return c.makeResponse(ctx, key)
}

// apart makes the part of the call that the HTTP of the program is asked in.
func (c *call) apart(
	ctx context.Context,
	part func(context.Context, outlet) (*agent.ModelResponse, error),
) (*agent.ModelResponse, error) {
	return provider.Apart(ctx, c.req, "openaimodel", c.show, func(
		ctx context.Context, show func(string) bool, keep func(*agent.ModelResponse),
	) (*agent.ModelResponse, error) {
		return part(ctx, outlet{show, keep})
	})
}

// An outlet takes what comes of an answer before the call returns.
type outlet struct {
	show func(text string) bool
	keep func(*agent.ModelResponse) // an answer that is complete
}

// classes are what the codes and the types of OpenAI's errors mean, whatever the status is.
var classes = map[string]provider.Class{
	"insufficient_quota":                provider.ClassAccount, // the type of those that follow
	"credit_balance_exhausted":          provider.ClassAccount,
	"organization_spend_limit_exceeded": provider.ClassAccount,
	"project_spend_limit_exceeded":      provider.ClassAccount,
	"organization_usage_limit_exceeded": provider.ClassAccount,
	"billing_hard_limit_reached":        provider.ClassAccount,
	"invalid_api_key":                   provider.ClassAccount,
	"model_not_found":                   provider.ClassAccount,
	"account_deactivated":               provider.ClassAccount,

	"rate_limit_exceeded": provider.ClassRate,
	"rate_limit_error":    provider.ClassRate,
	"slow_down":           provider.ClassRate,
	"too_many_requests":   provider.ClassRate,

	"server_error":              provider.ClassRetryable,
	"server_is_overloaded":      provider.ClassRetryable,
	"service_unavailable_error": provider.ClassRetryable,
	"overloaded":                provider.ClassRetryable,
	"overloaded_error":          provider.ClassRetryable,
	"timeout":                   provider.ClassRetryable,

	"context_length_exceeded": provider.ClassTooLong,
	"string_above_max_length": provider.ClassTooLong,
}

// classOf returns what a code and a type of OpenAI mean. What its account lacks may stand in the
// type alone, and a code that says more goes before it.
func classOf(code, kind string) provider.Class {
	if class, ok := classes[code]; ok {
		return class
	}
	return classes[kind]
}

// isReported reports whether an error is one that the provider has told in the middle of a stream.
// Behind the end of an answer it counts, and the end of a connection does not.
func isReported(err error) bool {
	_, ok := errors.AsType[*ssestream.StreamError](err)
	return ok
}

// errorOf returns the error of a call as the Loop wants it.
func (c *call) errorOf(ctx context.Context, err error) error {
	if event, ok := errors.AsType[*ssestream.StreamError](err); ok {
		var said struct {
			Error struct {
				Message string
				Type    string
				Code    any // a text, or with some servers a number
			}
		}
		if json.Unmarshal(event.Event.Data, &said) != nil {
			said.Error.Message = event.Message
		}
		return faultOf(said.Error.Code, said.Error.Type, said.Error.Message)
	}
	if said, ok := errors.AsType[*provider.Error](err); ok {
		return said // without what package http says, which has the address of a redirect
	}
	if input, ok := errors.AsType[*spawn.InputError](err); ok {
		return input // nothing was sent
	}
	_, hangs := errors.AsType[*provider.HangError](err)
	if hangs || errors.Is(err, errStopped) || agent.IsRetryable(err) {
		return err
	}
	return provider.Broken(ctx, "openaimodel", err)
}

// faultOf returns the error that a provider reports in the middle of an answer.
func faultOf(code any, kind, message string) *provider.Error {
	text, ok := code.(string)
	if !ok && code != nil {
		text = fmt.Sprint(code)
	}
	class := classOf(text, kind)
	if status, ok := code.(float64); ok && class == provider.ClassStatus {
		class = provider.ClassOf(int(status), message) // of a server that hides one behind another
	}
	text = cmp.Or(text, kind)
	if class == provider.ClassStatus && strings.HasPrefix(text, "invalid_") {
		class = provider.ClassRefused
	}
	return &provider.Error{Client: "openaimodel", Code: text, Message: message, Class: class}
}

// say takes the error of an answer that is not a stream, and returns the words in it.
func say(e *provider.Error, body []byte) (words string) {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	var of struct {
		Message, Type string
		Code          any
	}
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 || string(said.Error) == "null" {
		return ""
	}
	if json.Unmarshal(said.Error, &of.Message) != nil { // some servers have a text there
		_ = json.Unmarshal(said.Error, &of) // what has not the form is left out
	}
	fault := faultOf(of.Code, of.Type, of.Message)
	e.Code, e.Class = fault.Code, fault.Class
	switch _, isNumber := of.Code.(float64); {
	case isNumber && e.Status >= 400: // the status says it
		e.Class = classOf("", of.Type)
	case e.Class == provider.ClassRefused:
		e.Class = provider.ClassStatus // the words may say more than a code that is invalid_
	}
	return of.Message
}

// errEnded says that a stream has ended before its answer was complete.
var errEnded = fmt.Errorf("openaimodel: the answer is not complete: %w", io.ErrUnexpectedEOF)

// withheld returns the error of an answer of which the provider has kept something back, if nothing
// is left of it. The provider's reason is such as "length" or "content_filter".
func withheld(resp *agent.ModelResponse, reason string) error {
	if resp.Text != "" || len(resp.ToolCalls) > 0 {
		return nil
	}
	return &provider.Error{
		Client: "openaimodel", Code: reason, Class: provider.ClassRefused,
		Message: "the answer ended before it had begun",
	}
}
