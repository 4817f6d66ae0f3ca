// Inspect prints the prompt that a session would get, as a Runtime with this workspace assembles
// it.
//
//	go run ./examples/inspect -workspace DIR -session agent:main:main
//	go run ./examples/inspect -workspace DIR -session agent:main:main -report
//	go run ./examples/inspect -workspace DIR -session agent:main:main -mode minimal
//	go run ./examples/inspect -workspace DIR -session agent:main:main -diff agent:ops:main
//
// With -skills DIR, once or more, the prompt has the skills of these directories, and each SKILL.md
// that is broken is an error with its reason. Without a session the skills are listed:
//
//	go run ./examples/inspect -skills DIR
//
// It also prints what a directory of dirstore.Open holds, whether a bot has it open or not:
//
//	go run ./examples/inspect -state DIR
//	    trees, runs, what is unread, deliveries
//	go run ./examples/inspect -state DIR -json
//	    the same, as a spawn.TreeView on each line
//	go run ./examples/inspect -state DIR -tree agent:main:main
//	    the journal of a tree, as text, or with -json as entries
//	go run ./examples/inspect -state DIR -verify
//	    what is not intact in any frame, line or tree
//	go run ./examples/inspect -state DIR -repair
//	    puts what is not intact aside, keeps each tree to its last whole batch, and
//	    says what is lost, while no bot runs
//	go run ./examples/inspect -state DIR -restored
//	    says that the directory is an older copy of itself, such as a backup that was
//	    restored, so that what is delivered from then on gets new keys
//	go run ./examples/inspect -state DIR -retry KEY
//	go run ./examples/inspect -state DIR -dismiss KEY
//	    settles a blocked delivery while no bot runs
//
// The list shows what the journals say at the moment. A run whose process died is listed as running
// until the bot opens the directory again, which reports the run as interrupted.
//
// Only -repair, -restored, -retry and -dismiss change anything. They take the lock, so they fail
// while a bot has it. The last two take over one tree and add their entry to its journal. They
// neither start a turn nor deliver: the bot does that when it runs next. What is damaged is listed
// as -repair would leave it.
//
// The exit code is 0, or 1 if the request cannot be met or something is not intact, or 2 if the
// command line is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
	"unicode"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], time.Now(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The codes with which the program ends.
const (
	exitOK    = 0
	exitError = 1 // what was asked for cannot be done, or something is broken
	exitUsage = 2 // the command line is wrong
)

// options are what the command line says.
type options struct {
	workspace string
	key       session.Key
	other     session.Key // -diff
	mode      agentctx.Mode
	report    bool
	skills    []string
}

// run is the program without the process around it.
func run(
	ctx context.Context, args []string, now time.Time, out, errOut io.Writer,
) int {
	if wantsState(args) {
		return runState(ctx, args, now, out, errOut)
	}
	o, err := parse(args)
	if err != nil {
		return explain(err, out, errOut)
	}
	text, err := inspect(ctx, o, now)
	fmt.Fprint(out, harmless(text))
	if err != nil {
		printErrors(errOut, err)
		return exitError
	}
	return exitOK
}

// explain says why the command line cannot be followed, or prints the usage if that was asked for.
func explain(err error, out, errOut io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage())
		return exitOK
	}
	printErrors(errOut, err)
	fmt.Fprintln(errOut, "inspect -h lists the options")
	return exitUsage
}

// printErrors prints an error on a line, or each of those that are joined in it.
func printErrors(out io.Writer, err error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if ok && fmt.Sprint(errors.Join(joined.Unwrap()...)) == err.Error() {
		for _, err := range joined.Unwrap() {
			printErrors(out, err)
		}
		return
	}
	fmt.Fprintf(out, "inspect: %s\n", plain(err.Error()))
}

// usage returns the options of both modes.
func usage() string {
	var b strings.Builder
	for _, mode := range []struct {
		head  string
		flags *flag.FlagSet
	}{
		{
			"inspect -workspace DIR -session KEY: the prompt of a session\n" +
				"inspect -skills DIR: the skills of a directory", promptFlags(new(options)),
		},
		{"\ninspect -state DIR: what a directory of dirstore.Open holds", stateFlags(new(stateOptions))},
	} {
		fmt.Fprintln(&b, mode.head)
		mode.flags.SetOutput(&b)
		mode.flags.PrintDefaults()
	}
	return b.String()
}

// newFlags returns the set of a command line, which writes nothing by itself.
func newFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// misplaced returns the error of parsing a command line. It says so if an option that is not
// defined is one of the other mode.
func misplaced(err error, other *flag.FlagSet, hint string) error {
	name, undefined := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if undefined && other.Lookup(name) != nil {
		return fmt.Errorf("-%s %s", name, hint)
	}
	return err
}

// promptFlags returns the options of the prompt of a session.
func promptFlags(o *options) *flag.FlagSet {
	flags := newFlags()
	flags.StringVar(&o.workspace, "workspace", "", "directory with AGENTS.md and the other workspace files")
	flags.TextVar(&o.key, "session", session.Key{}, "`key` of the session, such as agent:main:main")
	flags.TextVar(&o.other, "diff", session.Key{}, "`key` of another session: show what the two see differently")
	flags.TextVar(&o.mode, "mode", agentctx.ModeAuto, "force a `mode`: full, minimal or none")
	flags.Func("skills", "`directory` with skills; may be given again", func(dir string) error {
		if dir == "" {
			return errors.New("it is empty: the directory with skills")
		}
		o.skills = append(o.skills, dir)
		return nil
	})
	flags.BoolVar(&o.report, "report", false, "print what became of every section and file, as tables")
	return flags
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := promptFlags(&o)
	if err := flags.Parse(args); err != nil {
		return o, misplaced(err, stateFlags(new(stateOptions)),
			"needs -state DIR, a directory of dirstore.Open")
	}
	switch err = checkGiven(flags); {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.listsSkills():
	case o.workspace == "":
		err = errors.New("-workspace is missing: the directory with AGENTS.md " +
			"(or -state: a directory of dirstore.Open)")
	case !o.key.IsValid():
		err = errors.New("-session is missing: a key such as agent:main:main")
	}
	return o, err
}

// listsSkills reports whether the command line asks for the skills without a prompt.
func (o options) listsSkills() bool {
	return len(o.skills) > 0 && o.workspace == "" && o.key.IsZero() && o.other.IsZero()
}

// checkGiven returns an error for an option that was given an empty value, which would otherwise
// count as one that was not given.
func checkGiven(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "skills" {
			return // it has looked at its value
		}
		if f.Value.String() == "" && err == nil {
			_, usage := flag.UnquoteUsage(f)
			err = fmt.Errorf("-%s is empty: %s", f.Name, usage)
		}
	})
	return err
}

// inspect returns what was asked for. The error beside it names what is broken in the skills.
func inspect(ctx context.Context, o options, now time.Time) (string, error) {
	sources, closeAll, err := openSkills(o.skills)
	defer closeAll()
	if err != nil {
		return "", err
	}
	cfg := agent.Config{Prompts: agent.Prompts{Skills: sources}}
	if len(sources) > 0 { // a prompt lists skills where a tool can open them
		cfg.Tools = []agent.Tool{{Name: "read", Description: "Read a file."}}
	}
	if o.listsSkills() {
		return listSkills(cfg)
	}
	root, err := os.OpenRoot(o.workspace)
	if err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	cfg.Workspace = root.FS()
	p, err := assemble(ctx, cfg, o.key, o.mode, now)
	if err != nil {
		return "", err
	}
	broken := brokenSkills(p.Skills)
	switch {
	case o.other.IsValid():
		other, err := assemble(ctx, cfg, o.other, o.mode, now)
		if err != nil {
			return "", err
		}
		return difference(p, other, o.report), broken
	case o.report:
		return p.Report(), broken
	default:
		return p.String(), broken
	}
}

// assemble does what a Runtime does for a turn of the session.
func assemble(
	ctx context.Context, cfg agent.Config, key session.Key, mode agentctx.Mode, now time.Time,
) (p agentctx.Prompt, err error) {
	in, err := cfg.Input(ctx, key)
	if err != nil {
		return p, err
	}
	in.Now = now
	if mode != agentctx.ModeAuto {
		in.Spec.Mode = mode
	}
	return agentctx.Assemble(in), nil
}

// difference returns what is different in the second prompt, or in its report.
func difference(a, b agentctx.Prompt, report bool) string {
	textA, textB := a.String(), b.String()
	if report {
		textA, textB = a.Report(), b.Report()
	}
	head := fmt.Sprintf("--- %s (%s)\n+++ %s (%s)\n", a.Session, a.Mode, b.Session, b.Mode)
	if d := contexttest.Diff(textA, textB); d != "" {
		return head + d
	}
	return head + "no difference\n"
}

// harmless replaces the characters that a terminal would obey: controls, and those that break a
// line or turn its direction. The files of a workspace may have been written by people who want to
// harm the reader.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && commands(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// commands reports whether a terminal would obey a character instead of drawing it.
func commands(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// harmlessJSON writes such characters as JSON escapes them, which changes no value.
func harmlessJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && commands(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
