// Package openclaw reads an existing openclaw.json, so that a bot with Offshoot behaves as OpenClaw
// did with it.
//
//	openclaw.json (JSON5)                     ~/.openclaw/agents/<id>/agent/auth-profiles.json
//	        |                                                   |
//	        v                                                   |  read in each turn,
//	  Load, LoadFS, Parse  ----> mistakes, all at once,         |  never written
//	        |                    each with line and path        v
//	        v                                                 Store
//	     Result: Doubts, Untaken, Migrated                      |
//	        |                                                   |
//	        v                                                   v
//	  Result.Apply(&cfg)   sets Rules, Models, Threads,   cfg.Models.Credentials
//	                       Prompts, WorkDir
//
// A file may change while the bot runs. What a Runtime asks a function for holds without a restart,
// and so do the Rules, of a Runtime that follows; of everything else a [Change] says why not:
//
//	openclaw.json --> Live.Watch --> Live.Update --> Change: live, needs a restart, no effect
//	                every 2 seconds       |
//	                                      v
//	             the functions that Live.Apply has put into the Config,
//	             and SetRules of the Runtime that Live.Follow names
//
// The program keeps its Runner, Store, Tools, Reply and Deliver, and its transports. What the file
// says of those is listed in [Result].Untaken, with the reason. Members that are not known are
// mistakes in the objects that are read as a whole, such as subagents and threadBindings, are
// listed elsewhere, and are mistakes everywhere with Options.Strict.
//
// Values that OpenClaw takes otherwise are converted, or doubts: see docs/openclaw.md.
//
// To read the code, begin with file.go, which has all that is understood as types. walk.go reads a
// file into them, convert.go, tools.go and models.go make changes of a Config of them, and
// schema.go a JSON Schema. changes.go compares two files, live.go has what holds now, and watch.go
// looks at a file. json5.go is the grammar above the tokens of the library.
package openclaw
