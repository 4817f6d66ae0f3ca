// Package mcp connects a bot to servers of the Model Context Protocol, and makes a bot such a
// server. It uses the official Go SDK, of which nothing is in its API.
//
//	                   agent.Config.Tools                    stdio     +-----------------+
//	+---------+   mcp__files__read, ...    +----------+  <---------->  | child process   |
//	| Runtime | <------------------------- |  Client  |                +-----------------+
//	|         | -------------------------> | one link |     HTTP       +-----------------+
//	+---------+         calls              | a server |  <---------->  | https://...     |
//	     ^                                 +----------+                +-----------------+
//	     |  RuntimeTools, SessionTools
//	     |
//	+---------+      stdio, HTTP       another program, such as a coding agent,
//	| Service | <--------------------> which asks the bot or gives out work
//	+---------+
//
// [Connect], [Client], [Server], [Service], [RuntimeTools] and [SessionTools] are the names that
// matter.
//
// # Servers as tools
//
// [Connect] starts the servers of a [Config], or reaches them, and asks for their tools.
// [Client.Tools] returns them for agent.Config.Tools, each under the name that rules know it by:
// mcp__<server>__<tool>. So `"deny": ["mcp__files__*"]` takes the tools of one server away. A
// server with resources has two more tools, list_resources and read_resource.
//
//	servers, err := mcp.Connect(ctx, mcp.Config{Servers: []mcp.Server{
//		{Name: "files", Command: []string{"mcp-files", "/srv/notes"}},
//		{Name: "search", URL: "https://search.example/mcp", Optional: true},
//	}})
//	if err != nil { ... }
//	defer servers.Close()
//	rt, err := agent.Open(ctx, agent.Config{Tools: servers.Tools(), ...})
//
// A server that asks for a model or a person is refused, and one that asks for the directories of
// the bot is answered with an empty list. A redirect that leaves its scheme, host and port is not
// followed, and is a [*RedirectError].
//
// What a server says is not trusted. Its messages, lists and texts are bounded, a tool that it
// lists twice is one tool, one that cannot be read is left out alone, and a schema that agent.Open
// would refuse becomes part of the description. A name that is too long or not unique ends with a
// hash of the server's own name. Its hints, such as that a tool changes nothing, count only if
// [Server].Trusted says so. A child process gets a few harmless variables of the environment and
// those of [Server].Env, and so not the keys of the bot. The secrets that a server is given, such
// as those of [Server].Header, are masked in all texts that it sends.
//
// # Servers that end
//
// A server that ends, or a connection that breaks, is made anew: at once, then after pauses that
// grow up to half a minute. A call that comes meanwhile waits for it. A call that was under way
// fails with a [*LostError], because it is not known whether the server has done it. That error is
// agent.Retryable, so that the Runtime calls a tool again whose Effect says that this does no harm.
// An answer that is too large is a [*SizeError], and one that has not the form of the protocol, or
// is nested more than 1,000 levels, is a [*FormError]: both are not, and the connection goes on. A
// status over HTTP that is not one of success is a [*StatusError], which the status decides on.
// What is not a message at all, such as a page of HTML, cannot be told from a connection that is
// broken, and counts as one.
//
// # Lists that change
//
// The tools of a Runtime are those that its Config had. When a server says that its list has
// changed, or comes back with another one, [Config].Changed is told. A call of a tool that is gone
// fails with a [*GoneError], and a tool that comes back works again. To give models what is new,
// the program opens its Runtime anew with [Client.Tools]; nothing durable is lost by that.
//
// # A bot as a server
//
// A [Service] hands tools to programs that speak the protocol, over stdio with [Service.Serve] or
// over HTTP with [Service.Handler]. The tools of [RuntimeTools] ask a bot and show what it does.
// Those of [SessionTools] are the session tools of one session, so that a loop that runs elsewhere
// can give out work.
//
// To read the code, begin with client.go; link.go keeps one server connected, repair.go takes out
// of its messages what the SDK cannot read, status.go what it does not tell, tool.go and result.go
// translate, and service.go is the other direction.
package mcp
