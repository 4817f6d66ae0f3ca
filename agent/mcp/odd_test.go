package mcp_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// oddAnswers are what a server says that does without the SDK.
type oddAnswers struct {
	List   string // the tools, without the brackets around them
	Before string // a message before the result of a call; may be empty
	Result string // of a call
}

// deep returns an object that is nested so many levels.
func deep(levels int) string {
	return strings.Repeat(`{"not":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
}

// oddServers returns how a server with odd answers is reached, by transport.
func oddServers(t *testing.T, odd oddAnswers) map[string]mcp.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "odd.json")
	text, err := json.Marshal(odd)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	child := childServer(t, "raw")
	child.Env = append(child.Env, asOdd+"="+file)
	all := map[string]mcp.Server{"stdio": child}
	for name, form := range map[string]string{ // of a message, behind its first brace
		"JSON":               "{REST",
		"a stream":           "id: 1\nevent: message\ndata: {REST\r\n\r\n",
		"a stream of lines":  ": hello\n\ndata: {\ndata: REST\n\n",
		"a stream that ends": "data:{REST",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, ok := received(w, r)
			if !ok {
				return
			}
			body := httptest.NewRecorder()
			asked.reply(body, odd.Result)
			said := body.Body.String()
			if asked.Method == "tools/list" {
				said = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, asked.ID, odd.List)
			}
			w.Header().Set("Content-Type", "application/json")
			before := ""
			if name != "JSON" {
				w.Header().Set("Content-Type", "text/event-stream")
				if asked.Method == "tools/call" && odd.Before != "" {
					before = "data: " + odd.Before + "\n\n"
				}
			}
			_, _ = fmt.Fprint(w, before, strings.Replace(form, "REST", said[1:], 1))
		}))
		t.Cleanup(srv.Close)
		all[name] = mcp.Server{Name: "child", URL: srv.URL, Trusted: true}
	}
	return all
}

// impossible are tools that cannot be read, each of which is called bad where it has a name.
var impossible = map[string]string{
	"a schema of 996 levels":       `{"name":"bad","inputSchema":` + deep(996) + `}`,
	"a schema of 997 levels":       `{"name":"bad","inputSchema":` + deep(997) + `}`,
	"a schema of 3,000 levels":     `{"name":"bad","inputSchema":` + deep(3000) + `}`,
	"a schema of 30,000 levels":    `{"inputSchema":` + deep(30_000) + `,"name":"bad"}`,
	"a result of 3,000 levels":     `{"name":"bad","inputSchema":{},"outputSchema":` + deep(3000) + `}`,
	"a schema that is no number":   `{"name":"bad","inputSchema":{"maximum":1e999}}`,
	"a name that is a number":      `{"name":5,"inputSchema":{"type":"object"}}`,
	"a description that is a list": `{"name":"bad","description":["x"],"inputSchema":{}}`,
	"annotations that are a text":  `{"name":"bad","annotations":"x","inputSchema":{}}`,
	"a hint that is a text":        `{"name":"bad","annotations":{"readOnlyHint":"x"}}`,
	"icons that are a text":        `{"name":"bad","icons":"x","inputSchema":{}}`,
	"a tool that is a text":        `"bad"`,
	"a tool that is a list":        `[{"name":"bad"}]`,
	"a tool that is null":          `null`,
	"a header that is not primitive": `{"name":"bad","inputSchema":{"type":"object","properties":` +
		`{"a":{"type":"object","x-mcp-header":"X"}}}}`,
}

// A tool that cannot be read is lost alone, and the log says so: the others of the list work.
func TestToolsThatAreImpossible(t *testing.T) {
	const first, last = `{"name":"first","inputSchema":{"type":"object"}},`,
		`,{"name":"last","inputSchema":{"type":"object"}}`
	for name, tool := range impossible {
		odd := oddAnswers{List: first + tool + last, Result: `{"content":[{"type":"text","text":"ok"}]}`}
		for how, server := range oddServers(t, odd) {
			t.Run(name+" over "+how, func(t *testing.T) {
				var log lines
				c := connect(t, mcp.Config{
					Servers: []mcp.Server{server}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				want := []string{"mcp__child__first", "mcp__child__last"}
				if strings.Contains(name, "996") { // it is told in the description
					want = []string{"mcp__child__bad", want[0], want[1]}
				}
				require.Equal(t, want, names(c.Tools()))
				for _, tool := range want {
					require.Equal(t, "ok", mustCall(t, c, tool, `{"how":"odd"}`).Text)
				}
				require.Contains(t, log.String(), "server=child")
				require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
				if strings.Contains(tool, `"name":"bad"`) && tool[0] == '{' {
					require.Contains(t, log.String(), "bad")
				}
				require.Less(t, len(log.String()), 2000)
				require.Equal(t, 1, c.Servers()[0].Starts)
			})
		}
	}
}

// Many tools that cannot be read are one line of the log.
func TestManyToolsThatAreImpossible(t *testing.T) {
	odd := oddAnswers{List: strings.Repeat(`{"name":"bad"},{"name":5},7,`, 9999) + `{"name":"t"}`}
	for how, server := range oddServers(t, odd) {
		t.Run(how, func(t *testing.T) {
			var log lines
			c := connect(t, mcp.Config{
				Servers: []mcp.Server{server}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.Equal(t, []string{"mcp__child__bad", "mcp__child__t"}, names(c.Tools()))
			require.Contains(t, log.String(), "left_out=19998")
			require.Less(t, len(log.String()), 2000)
		})
	}
}

// A message that is nested too deeply costs its call, for which another try is not worth it, or
// nothing if it is not an answer. The connection goes on.
func TestMessagesThatAreNestedTooDeeply(t *testing.T) {
	const fine = `{"content":[{"type":"text","text":"ok"}]}`
	for name, odd := range map[string]oddAnswers{
		"a result": {Result: `{"content":[],"structuredContent":` + deep(3000) + `}`},
		"a list":   {Result: `{"content":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`},
		"a notification": {
			Before: `{"jsonrpc":"2.0","method":"notifications/x","params":` + deep(3000) + `}`,
			Result: fine,
		},
		"a request": {
			Before: `{"jsonrpc":"2.0","id":"q","method":"ping","params":` + deep(3000) + `}`,
			Result: fine,
		},
	} {
		odd.List = `{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
		for how, server := range oddServers(t, odd) {
			t.Run(name+" over "+how, func(t *testing.T) {
				var log lines
				c := connect(t, mcp.Config{
					Servers: []mcp.Server{server}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				for range 2 {
					out, err := call(t, c, "mcp__child__t", `{"how":"odd"}`)
					if odd.Before != "" {
						require.NoError(t, err)
						require.Equal(t, "ok", out.Text)
						continue
					}
					var form *mcp.FormError
					require.ErrorAs(t, err, &form)
					require.Contains(t, form.Reason, "more than 1000 levels")
					require.False(t, agent.IsRetryable(err))
				}
				require.Equal(t, 1, c.Servers()[0].Starts)
				if how != "JSON" || odd.Before == "" {
					require.Contains(t, log.String(), "nested too deeply")
				}
			})
		}
	}
}

// A schema is handed on as that of an object, which says so. What it has beyond that is in the
// description.
func TestSchemasOfTools(t *testing.T) {
	const object = `{"type":"object"}`
	for schema, test := range map[string]struct {
		want  string
		moved bool
	}{
		object:  {object, false},
		"null":  {object, false},
		`{}`:    {object, false},
		"true":  {object, true},
		"false": {object, true},
		"[]":    {object, true},
		`"x"`:   {object, true},
		"7":     {object, true},

		`{"type":["object","null"]}`: {object, false},
		`{"type":["string","null"]}`: {object, true},
		`{"type":"string"}`:          {object, true},
		`{"type":7}`:                 {object, true},

		`{"anyOf":[{"type":"object"}]}`: {object, true},
		`{"not":{},"type":"object"}`:    {object, true},
		`{"$defs":{"a":{"type":"object"}},"$ref":"#/$defs/a"}`: {
			`{"$defs":{"a":{"type":"object"}},"type":"object"}`, true,
		},
		`{"properties":{"a":{"type":"string"}}}`: {
			`{"properties":{"a":{"type":"string"}},"type":"object"}`, false,
		},
		`{"oneOf":[{"required":["a"]}],"properties":{"a":{"anyOf":[{}]}},"type":"object"}`: {
			`{"properties":{"a":{"anyOf":[{}]}},"type":"object"}`, true,
		},
		`{"properties":null,"type":"object"}`: {object, true},
	} {
		server := oddServers(t, oddAnswers{
			List: `{"name":"t","description":"Odd.","inputSchema":` + schema + `}`,
		})["JSON"]
		tools := connect(t, mcp.Config{Servers: []mcp.Server{server}}).Tools()
		require.Len(t, tools, 1, schema)
		require.JSONEq(t, test.want, string(tools[0].Schema), schema)
		want := "Odd."
		if test.moved {
			want += "\n\nArguments, as a JSON Schema: " + schema
		}
		require.Equal(t, want, tools[0].Description)
	}
}

// What the SDK says of a server that sends what is not a message is not a refusal of the server:
// the connection has broken. The same words in an answer are one.
func TestErrorsOfTheSDK(t *testing.T) {
	for _, before := range []string{
		`{"jsonrpc":"2.0","id":true,"result":{}}`, `{"jsonrpc":"2.0","id":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0"}`, `{"result":{}}`, `{`,
	} {
		server := oddServers(t, oddAnswers{
			List: `{"name":"t","inputSchema":{"type":"object"}}`, Before: before, Result: `{"content":[]}`,
		})["stdio"]
		c := connect(t, mcp.Config{Servers: []mcp.Server{server}})
		_, err := call(t, c, "mcp__child__t", `{"how":"odd"}`)
		var lost *mcp.LostError
		require.ErrorAs(t, err, &lost, before)
		require.True(t, agent.IsRetryable(err))
	}
	for code, words := range map[int]string{-32700: "parse error", -32600: "invalid request"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, ok := received(w, r)
			switch {
			case !ok:
			case asked.Method == "tools/call":
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, asked.ID, code,
					words)
			default:
				asked.reply(w, `{}`)
			}
		}))
		t.Cleanup(web.Close)
		c := connect(t, mcp.Config{Servers: []mcp.Server{{Name: "web", URL: web.URL}}})
		_, err := call(t, c, "mcp__web__t", `{}`)
		var refusal *mcp.ToolError
		require.ErrorAs(t, err, &refusal)
		require.Contains(t, refusal.Text, words)
		require.Equal(t, 1, c.Servers()[0].Starts)
	}
}
