package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/announce"
)

// Defaults of a [Server].
const (
	// DefaultStartTimeout is how long a server may take to start and to list its tools.
	DefaultStartTimeout = 30 * time.Second
	// DefaultCallTimeout is how long a call of a tool may take.
	DefaultCallTimeout = time.Minute
	// MaxTools is how many tools of one server count; those behind are left out, in the order in
	// which the server lists them, and logged.
	MaxTools = 1000
	// MaxPages is how many pages of a list are read; what is behind them is left out, and logged.
	MaxPages = 200
	// MaxMessage is how many bytes a message of a server has at most. A larger answer to a call is
	// a [*SizeError]. The connection goes on behind it, unless, over stdio, it has more than five
	// times that.
	MaxMessage = 16 << 20
	// MaxDescription is how many bytes of the description of a tool a model sees. One whose schema
	// cannot be checked has it in its description, which has up to twice as many bytes then.
	MaxDescription = 10_000
)

// A Config is the servers of a bot. Connect copies it.
type Config struct {
	// Servers are connected at the same time. Their tools come in this order.
	Servers []Server
	// Name and Version say to servers who calls. Empty: "offshoot" and "0".
	Name, Version string
	// Changed is told of each change in the tools of a server, which can be called by then. Calls
	// for one server never overlap. One that takes more than 10 seconds is left behind, which is
	// logged, and until it returns it is told of no other change. It must not call Close. A panic
	// of it is logged. Nil: changes are logged alone.
	Changed func(Change)
	// Logger is told of servers that end, of changes, and at level Debug of what child processes
	// write to stderr. A record on which its Handler panics is lost. It may not hang. Nil: what
	// slog.Default is at Connect.
	Logger *slog.Logger
}

// A Server is one server, which Command starts or URL leads to.
type Server struct {
	// Name is the second part of the names of its tools. It has up to 32 lower-case letters,
	// digits, "-" and "_", begins with a letter or digit, ends with neither sign and has no "__".
	Name string

	// Command is a program and its arguments, which speaks the protocol over stdin and stdout. It
	// is started without a shell.
	Command []string
	// Dir is where Command runs. Empty: where the bot does.
	Dir string
	// Env are variables of Command, each "NAME=value". Of the environment of the bot, Command gets
	// only what programs need to run at all, such as PATH and HOME: keys of the bot are not for it.
	// Values that look like credentials are masked in all texts of the server.
	Env []string

	// URL is the http or https address of a server that speaks the streamable HTTP transport. A
	// redirect that leaves its scheme, host and port is not followed, see [RedirectError]. What may
	// be a key in its path or query, of 16 characters and more, is masked in all texts of the
	// server; credentials are better in Header.
	URL string
	// Header goes with each request to the host of URL, such as Authorization, and to no other. Its
	// values are masked in all texts of the server, but for those of headers such as Accept and
	// User-Agent, which have no secret.
	Header http.Header
	// HTTP makes the requests. It must not have a Timeout, which would end streams. If its
	// Transport, its CheckRedirect or the body of an answer panics, the request has failed; a Jar
	// that does so has no cookies. It must obey the ctx of each request: a call of a tool does not
	// wait for one that hangs, see [agent.Tool].Timeout, and Connect and Close do. Nil: a client
	// with the defaults of net/http.
	HTTP *http.Client

	// Optional says that Connect succeeds without the server. It is tried again in the background,
	// and Config.Changed is told when it has tools.
	Optional bool
	// Trusted says that the hints of the server count: a tool that calls itself read-only is an
	// agent.EffectReadOnly, and calls of it may run at the same time; one that calls itself
	// idempotent is an agent.EffectIdempotent. Else nothing is known of the effect of its tools.
	Trusted bool
	// HideResources says that there are no tools for the resources of the server.
	HideResources bool
	// StartTimeout is how long the server may take to start and to list its tools, and how long a
	// call waits for one that is down. A child process that has not done so by then is killed.
	// Zero: DefaultStartTimeout.
	StartTimeout time.Duration
	// CallTimeout is the Timeout of each tool. Zero: DefaultCallTimeout.
	CallTimeout time.Duration

	redactor *announce.Redactor // of its secrets
}

// A Change is what has changed in the tools of a server. The names are those that models see,
// sorted.
type Change struct {
	Server   string
	Added    []string // they are in Client.Tools, and not in a Runtime that is open
	Removed  []string // calls of them fail
	Modified []string // their description, schema or hints are others
}

// A Status is how a server is now.
type Status struct {
	Server string
	Up     bool
	// Err is why the server is not up, or why it was started anew last; nil: there was no reason.
	Err error
	// Starts is how often it was reached.
	Starts int
	// Tools is how many tools it has, with those for resources.
	Tools int
	// Instructions is what the server says of how its tools are used, up to MaxDescription bytes. A
	// program that trusts the server may make it a part of the prompt. Secrets are masked in it.
	Instructions string
}

// A ConfigError is a field of a [Config] that cannot be accepted.
type ConfigError struct {
	Field  string // below Config, such as "Servers[1].Name"
	Reason string
}

func (e *ConfigError) Error() string { return "mcp: Config." + e.Field + ": " + e.Reason }

// A StartError is a server that could not be reached, or that did not list its tools.
type StartError struct {
	Server string
	Stderr string // the end of what a child process wrote there, with its secrets masked
	// Err is a *StatusError of a server over HTTP that has refused. Of a child process that has
	// ended by itself in failure it says how, such as with an exit status.
	Err error
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("mcp: server %q does not start: %v", e.Server, e.Err)
	if e.Stderr != "" {
		s += fmt.Sprintf(" (it wrote %q)", e.Stderr)
	}
	return s
}

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// ErrClosed says that the Client is closed.
var ErrClosed = errors.New("mcp: the client is closed")

// A Client keeps servers connected. Its methods are safe for concurrent use.
type Client struct {
	links []*link
	stop  context.CancelCauseFunc
	group sync.WaitGroup
}

// Connect reaches all servers at the same time and asks for their tools. It returns when each is up
// or has failed. The caller calls [Client.Close].
//
// The error joins a *ConfigError for each mistake in the Config, or a *StartError for each server
// that failed and is not Optional; no server runs then. The end of ctx ends the attempt. It does
// not end what Connect has returned.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Client{}
	for _, s := range cfg.Servers {
		c.links = append(c.links, newLink(&cfg, s))
	}
	failed := make([]error, len(c.links))
	var group sync.WaitGroup
	for i, l := range c.links {
		group.Go(func() { failed[i] = l.begin(ctx) })
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		for _, l := range c.links {
			l.end()
		}
		return nil, err
	}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stop = stop
	for _, l := range c.links {
		c.group.Go(func() { l.keep(life) })
	}
	return c, nil
}

// Close ends the connections and the child processes, and waits for them: a child whose stdin is
// closed has two seconds to end, then it is sent SIGTERM, and after two more SIGKILL. A
// Config.Changed that is under way has two seconds, and is left behind then. Calls under way fail,
// and those that follow return [ErrClosed]. A second Close waits for the first. It always returns
// nil.
func (c *Client) Close() error {
	c.stop(ErrClosed)
	c.group.Wait()
	return nil
}

// Tools returns the tools that the servers have now, in the order of the servers, those of one
// server sorted by name. They go on working when a server was started anew. Those of a server that
// is down are the last that it had.
func (c *Client) Tools() []agent.Tool {
	var tools []agent.Tool
	for _, l := range c.links {
		tools = append(tools, l.tools()...)
	}
	return tools
}

// Servers says how the servers are now, in the order of the Config.
func (c *Client) Servers() []Status {
	states := make([]Status, 0, len(c.links))
	for _, l := range c.links {
		states = append(states, l.status())
	}
	return states
}

// validate returns every mistake, joined.
func (c *Config) validate() error {
	var errs []error
	seen := map[string]int{}
	for i := range c.Servers {
		s := &c.Servers[i]
		bad := func(field, format string, args ...any) {
			at := fmt.Sprintf("Servers[%d].%s", i, field)
			errs = append(errs, &ConfigError{Field: at, Reason: fmt.Sprintf(format, args...)})
		}
		if !validServerName(s.Name) {
			bad("Name", "%q is not a name: want up to %d lower-case letters, digits, \"-\" and "+
				"\"_\", without \"__\", and a letter or digit at both ends", s.Name, maxServerName)
		} else if first, ok := seen[s.Name]; ok {
			bad("Name", "%q is that of Servers[%d], too", s.Name, first)
		}
		seen[s.Name] = i
		s.validate(bad)
	}
	return errors.Join(errs...)
}

func (s *Server) validate(bad func(field, format string, args ...any)) {
	switch {
	case len(s.Command) == 0 && s.URL == "":
		bad("Command", "it is empty, and so is URL: want one of them")
	case len(s.Command) > 0 && s.URL != "":
		bad("URL", "%q stands beside a Command: want one of them", s.secrets().Redact(s.URL))
	case len(s.Command) > 0 && s.Command[0] == "":
		bad("Command[0]", "the name of the program is empty")
	case s.URL != "":
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad("URL", "%q is not an absolute http or https address", s.secrets().Redact(s.URL))
		} else if u.User != nil {
			bad("URL", "it has a user: credentials belong in Header")
		}
	}
	for i, v := range s.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			bad(fmt.Sprintf("Env[%d]", i), "it is not NAME=value")
		}
	}
	if s.URL == "" && (len(s.Header) > 0 || s.HTTP != nil) {
		bad("Header", "Header and HTTP are for a URL, and there is a Command")
	}
	if len(s.Command) == 0 && (s.Dir != "" || len(s.Env) > 0) {
		bad("Dir", "Dir and Env are for a Command, and there is a URL")
	}
	if s.HTTP != nil && s.HTTP.Timeout != 0 {
		bad("HTTP", "its Timeout of %v would end streams: want 0", s.HTTP.Timeout)
	}
	if s.StartTimeout < 0 {
		bad("StartTimeout", "%v is negative", s.StartTimeout)
	}
	if s.CallTimeout < 0 {
		bad("CallTimeout", "%v is negative", s.CallTimeout)
	}
}

// maxServerName is how many bytes the name of a server has at most: the name of a tool has 64.
const maxServerName = 32

func validServerName(name string) bool {
	if name == "" || len(name) > maxServerName || strings.Contains(name, "__") {
		return false
	}
	ends := func(c byte) bool { return c == '-' || c == '_' }
	if ends(name[0]) || ends(name[len(name)-1]) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// orDefault returns the server with its timeouts, and its own copies.
func (s Server) orDefault() Server {
	s.Command, s.Env = slices.Clone(s.Command), slices.Clone(s.Env)
	s.Header = s.Header.Clone()
	s.redactor = s.secrets()
	s.StartTimeout = cmp.Or(s.StartTimeout, DefaultStartTimeout)
	s.CallTimeout = cmp.Or(s.CallTimeout, DefaultCallTimeout)
	return s
}
