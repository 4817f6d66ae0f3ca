package tree

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios in testdata really do")

// TestScenarios plays the scenarios in testdata: commands, each followed by the facts and effects
// that it must have. After every command the journal, written down and read back, must fold to the
// live tree. Every scenario is played twice, which must give the same.
func TestScenarios(t *testing.T) {
	skipUnderRace(t)
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			got := play(want)
			require.Equal(t, string(got), string(play(want)), "deciding is not deterministic")
			if *rewrite {
				require.NoError(t, os.WriteFile(name, got, 0o644))
				return
			}
			require.Equal(t, string(want), string(got))
		})
	}
}

// play runs a scenario and returns it with what really happened. A scenario is a sequence of
// blocks: commands, a line "----", what they lead to, and an empty line. What stands before the
// first block of all is a comment.
func play(script []byte) []byte { return newScene().play(script) }

func (s *scene) play(script []byte) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(script))
	var commands []string
	skipping := false
	for lines.Scan() {
		text := lines.Text()
		switch {
		case skipping:
			skipping = text != ""
			if !skipping {
				out.WriteByte('\n')
			}
		case text == "" || strings.HasPrefix(text, "#"):
			out.WriteString(text + "\n")
		case text == "----":
			out.WriteString(text + "\n")
			for _, c := range commands {
				out.WriteString(s.run(c))
			}
			commands, skipping = nil, true
		default:
			commands = append(commands, text)
			out.WriteString(text + "\n")
		}
	}
	return out.Bytes()
}

// A scene is a tree in which runs have short names.
type scene struct {
	opt     Options
	rules   policy.Rules
	tree    *Tree
	log     ledger
	now     int64
	opened  int
	names   map[string]session.Key
	tasks   map[string]Text // of the first spawn with a key, which later ones repeat
	replace []string        // for a strings.Replacer
	records map[session.Key]*Fact
}

// record keeps the state of a session that is archived, as the Executor does.
func (s *scene) record(r *Run) {
	data, err := s.tree.Record(r).AppendJSON(nil)
	if err == nil {
		s.records[r.Key()], err = DecodeFact(data)
	}
	if err != nil {
		panic(err)
	}
}

func newScene() *scene {
	s := &scene{names: map[string]session.Key{"top": top}, replace: []string{top.String(), "top"}}
	s.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	s.rules = policy.Rules{Subagents: policy.Subagents{MaxSpawnDepth: 3}}
	s.tasks, s.records = make(map[string]Text), make(map[session.Key]*Fact)
	s.opt = Options{
		Rules: &s.rules, Grace: 10 * time.Second, ArchiveAfter: time.Hour,
		Chunk: Budget{Tokens: 1000}, Apology: "sorry", StepTimeout: time.Minute,
	}
	s.tree = New(top, &s.opt)
	return s
}

// run runs one command and returns what it led to. A command may begin with a time to wait, such as
// +5s, or with one by which the clock is set back, such as -5s.
func (s *scene) run(text string) string {
	if wait, rest, ok := strings.Cut(text, " "); ok && strings.ContainsAny(wait[:1], "+-") {
		d, err := time.ParseDuration(wait)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		s.now += int64(d)
		text = rest
	}
	verb, args, _ := strings.Cut(text, " ")
	w := split(args)
	switch verb {
	case "options":
		s.options(w)
		return ""
	case "crash":
		folded, err := s.log.fold(top, &s.opt)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		s.options(w)
		s.tree = folded
		return ""
	case "show":
		if w.has("usage") {
			return s.showUsage()
		}
		return s.show()
	}
	cmd, err := s.command(verb, w)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return s.do(cmd)
}

func (s *scene) options(w words) {
	for name, value := range w.named {
		switch name {
		case "caller-run":
			s.opt.CallerRun = value == "true"
		case "tidies":
			s.opt.Tidies = value == "true"
		case "hook":
			s.opt.Ends = value == "true"
		case "unbinds":
			s.opt.Unbinds = value == "true"
		case "replies":
			s.opt.Replies = value == "true"
		case "children":
			s.rules.Subagents.MaxChildren = w.num(name)
		case "depth":
			s.rules.Subagents.MaxSpawnDepth = w.num(name)
		case "archive":
			s.opt.ArchiveAfter = w.duration(name)
		case "budget":
			s.rules.Budget.Tokens = int64(w.num(name))
		case "request-budget":
			s.rules.RequestBudget.Tokens = int64(w.num(name))
		case "request-turns":
			s.rules.RequestBudget.Turns = w.num(name)
		case "blocked":
			s.rules.Subagents.MaxBlocked = w.num(name)
		case "request":
			s.rules.Subagents.MaxRunsPerRequest = w.num(name)
		case "says":
			s.opt.Limits.Says = w.num(name)
		case "runs":
			s.rules.Subagents.MaxTreeRuns = w.num(name)
		}
	}
}

// do decides a command, writes the facts down, and prints everything.
func (s *scene) do(c Command) string {
	var b strings.Builder
	reply, err := s.tree.Decide(c, s.now)
	var refusal *policy.Refusal
	switch {
	case errors.As(err, &refusal):
		fmt.Fprintf(&b, "refused: %s: asked %s, limit %s (%s)\n",
			string(refusal.Rule), refusal.Asked, refusal.Limit, refusal.Path)
	case err != nil:
		fmt.Fprintf(&b, "refused: %v\n", err)
	case reply.Existing:
		fmt.Fprintf(&b, "known: %s\n", reply.Ref)
	}
	for _, in := range reply.Inputs {
		fmt.Fprintf(&b, "took %v input %d\n", in.Class, in.Ord)
	}
	for _, r := range reply.Stood {
		fmt.Fprintf(&b, "%s stood %v\n", r.Key(), r.State)
	}
	if reply.Grant != (Budget{}) {
		fmt.Fprintf(&b, "granted %d tokens\n", reply.Grant.Tokens)
	}
	facts, effects := s.tree.Take()
	for i := range facts {
		fmt.Fprintf(&b, "%v\n", &facts[i])
	}
	for _, e := range effects {
		name := "entry"
		switch {
		case e.Deposit != nil:
			name = fmt.Sprint(e.Deposit.Run)
			if !e.Deposit.Own {
				name += ", which a former owner may put"
			}
		case e.Run != nil && e.To != nil:
			name = fmt.Sprintf("%s from %s: %s", e.Run.Key(), wordsOf(&e.To.Route), e.ID)
		case e.Run != nil:
			name = e.Run.Key().String()
		case e.To != nil:
			name = "completions"
			switch {
			case e.To.Reply:
				name = "replies"
			case e.To.Hook:
				name = "the hook"
			case e.To.Sends:
				name = "messages to " + e.To.To.String()
			}
			name = strings.TrimSpace(name + " " + e.To.Route.Channel)
		case e.ID != "":
			name = fmt.Sprint(e.ID, ": ", e.Err)
		}
		if e.Kind == EffectArchive && !e.Run.IsRoot() {
			s.record(e.Run)
		}
		fmt.Fprintf(&b, "  -> %v %s", e.Kind, name)
		if e.Ord > 0 {
			fmt.Fprintf(&b, " %d", e.Ord)
		}
		b.WriteByte('\n')
	}
	if err := s.log.append(facts); err != nil {
		fmt.Fprintf(&b, "VIOLATION: %v\n", err)
	} else if err := s.log.check(s.tree); err != nil {
		fmt.Fprintf(&b, "VIOLATION: %v\n", err)
	}
	return strings.NewReplacer(s.replace...).Replace(b.String())
}
