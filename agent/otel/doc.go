// Package otel shows what a Runtime does as traces and metrics of OpenTelemetry: a tree of sessions
// is one trace, also over restarts.
//
//	agent.Runtime.Events                              sdktrace.TracerProvider, with [IDs]
//	      |                                                 |
//	      v                                                 v
//	 +---------+   open spans, cursors   +--------+   +-----------+
//	 | forest  | <---------------------> | State  |   | exporters |
//	 +---------+                         +--------+   +-----------+
//	      |  spans that have ended                          ^
//	      +-------------------------------------------------+
//
//	tree  offshoot.tree                    the top-level session
//	├── turn  offshoot.turn                one of its turns
//	│   ├── call  chat <model>             a call of a model, see [Models]
//	│   └── call  execute_tool <tool>      the call of a tool
//	└── run   invoke_agent <agent>         a sub-agent
//	    ├── turn
//	    └── run                            a sub-agent of that
//
// [New], [Config], [Exporter.Run], [IDs], [TraceID] and [File] are the names that matter.
//
//	tracer := sdktrace.NewTracerProvider(
//		sdktrace.WithIDGenerator(otel.IDs{}), sdktrace.WithBatcher(exporter))
//	x, err := otel.New(rt, otel.Config{
//		Tracer: tracer, Meter: meter, State: otel.File("otel.json"),
//	})
//	if err != nil { ... }
//	go func() { ended <- x.Run(ctx) }() // with a ctx that outlives that of rt.Run
//
// # Ids
//
// The id of the trace derives from the key of the top-level session, that of a run from its run id,
// that of a turn from its session and number. So a process that goes on with a tree after a crash
// goes on with its trace, and the same span that is exported twice has the same id, parent and
// times. The span of a tree has the time of its first event; only that of a tree that is older than
// the State has the time when the tree was first seen, which a kill can change. A span is exported
// when it has ended, whichever process has begun it. [Exporter.Context]
// makes spans of a tool children of its turn.
//
// # Crashes
//
// With a [Config].State the Exporter keeps which spans are open, and up to which event the backend
// has had all. It saves that only after the TracerProvider has been flushed. So after a kill -9
// nothing is missing that the journal has: what was not flushed is exported again. That holds from
// the moment on when the State was first used, which it keeps; what an old store has from before is
// not exported. A tree that the State does not know, because the kill came before a save, is found
// by the next process, which reads each tree of the store once for that, for up to 30 seconds.
// What was archived, or replaced by a snapshot of the journal, is not there any more. Calls of
// tools and models are not in the journal: those that were under way, or not flushed, are lost.
// Without a State the next process begins with what is open then, whose beginning it does not know.
//
// The times of a span are those of the journal, also over a kill. The end of a turn that was cut
// off is not known: its span ends when the next process has found it, and has the attribute
// offshoot.end_unknown.
//
// # What misbehaves
//
// A Tracer, a Meter or an exporter that panics, ends its goroutine or does not return costs the
// span or the measurement that it was to take. That is logged. It holds up no turn, and Run
// returns.
//
// So it is with an exporter behind sdktrace.WithSyncer. Behind sdktrace.WithBatcher the SDK calls
// it from a goroutine of its own as well, where a panic ends the process: this package cannot
// contain that. A program whose exporter may panic wraps it in one whose ExportSpans recovers.
//
// # Content
//
// Texts of people, models and tools are not in a span, nor are keys of sessions, labels and texts
// of errors, unless [Config].Content asks for them. What it shows then is what people may see, see
// agent.Runtime.Events. Names of agents, models and tools always are.
//
// # Metrics
//
//	gen_ai.client.token.usage          {token}  by agent, model, gen_ai.token.type; of turns
//	gen_ai.client.operation.duration   s        of runs, and of calls of tools and models
//	offshoot.runs                      {run}    that have ended, by agent and status
//	offshoot.runs.active               {run}    that have not ended
//	offshoot.spawns.refused            {spawn}  by the agent that asked
//	offshoot.deliveries                {delivery}  by outcome: delivered, deferred, blocked
//
// What is read again after a restart is not counted twice.
//
// To read the code, begin with forest.go, which turns events into spans and does nothing else;
// exporter.go reads and exports, and ids.go derives.
package otel
