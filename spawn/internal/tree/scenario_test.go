package tree

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
		Chunk: Budget{Tokens: 1000}, Apology: "sorry",
	}
	s.tree = New(top, &s.opt)
	return s
}

// words are the arguments of a command: positional ones and name=value.
type words struct {
	list  []string
	named map[string]string
}

func split(text string) (w words) {
	w.named = make(map[string]string)
	for f := range strings.FieldsSeq(text) {
		if name, value, ok := strings.Cut(f, "="); ok {
			w.named[name] = strings.ReplaceAll(value, "_", " ")
		} else {
			w.list = append(w.list, f)
		}
	}
	return w
}

func (w words) at(i int) string {
	if i < len(w.list) {
		return w.list[i]
	}
	return ""
}

func (w words) has(word string) bool { return slices.Contains(w.list, word) }

func (w words) num(name string) int {
	n, _ := strconv.Atoi(w.named[name])
	return n
}

func (w words) duration(name string) time.Duration {
	d, _ := time.ParseDuration(w.named[name])
	return d
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

// command builds a command from its words.
func (s *scene) command(verb string, w words) (Command, error) {
	r := s.names[w.at(0)]
	switch verb {
	case "open":
		s.opened++
		return &Open{
			Writer: "w" + strconv.Itoa(s.opened), SessionID: cmp.Or(w.named["session"], "s1"),
			Repair: w.named["repair"], RepairEpoch: uint64(w.num("epoch")),
		}, nil
	case "spawn":
		return s.spawn(w), nil
	case "post":
		return s.post(r, w), nil
	case "ensure":
		return Ensure{Run: r, ID: w.named["id"]}, nil
	case "set_route":
		c := SetRoute{Run: r}
		if route := routeOf(w.named["route"]); route != nil {
			c.Route = *route
		}
		return c, nil
	case "reset":
		return Restart{Run: r, SessionID: w.named["to"], Withdraw: w.has("withdraw")}, nil
	case "condense":
		return Condense{Run: r, ID: w.named["as"], Withdraw: w.has("withdraw")}, nil
	case "say":
		n := s.turn(r, w)
		return InTurn{Run: r, N: n, Cmd: &Say{
			Run: r, N: n, ID: w.named["id"], Num: uint32(w.num("number")),
			Answer: Result{Reply: Text(w.named["text"]), ReplyTo: Text(w.named["to"])},
		}}, nil
	case "report":
		n := s.turn(r, w)
		return InTurn{Run: r, N: n, Cmd: &Report{
			Run: r, N: n, Text: Text(w.named["text"]), Percent: uint8(w.num("percent")),
		}}, nil
	case "steer":
		return &Steer{From: r, To: s.names[w.at(1)], ID: w.named["id"], Text: Text(w.named["text"])}, nil
	case "grant":
		return Granted{Run: r}, nil
	case "done":
		return s.done(r, w), nil
	case "take":
		return Take{Run: r, N: s.turn(r, w)}, nil
	case "reach":
		return Reach{
			Run: r, N: s.turn(r, w), Pos: uint64(w.num("pos")), Through: uint32(w.num("through")),
		}, nil
	case "reserve":
		return Reserve{r, s.turn(r, w), Budget{Tokens: int64(w.num("used"))}}, nil
	case "skills":
		return KeepSkills{Run: r, N: s.turn(r, w), Skills: skillsOf(w)}, nil
	case "cancel_turn":
		return CancelTurn{Run: r}, nil
	case "stop":
		return &Stop{Run: r, Reason: w.named["why"]}, nil
	case "settle":
		ord, err := strconv.Atoi(w.at(0))
		return &Settle{
			Ord: uint32(ord), Error: w.named["error"], Busy: w.has("busy"), Hangs: w.has("hangs"),
		}, err
	case "retry":
		ord, err := strconv.Atoi(w.at(0))
		return Retry{Ord: uint32(ord)}, err
	case "dismiss":
		ord, err := strconv.Atoi(w.at(0))
		return Dismiss{Ord: uint32(ord)}, err
	case "announce_rest":
		return s.announceRest(w), nil
	case "discard", "revive", "putaway":
		return s.archive(verb, r, w)
	case "tick":
		return Tick{}, nil
	case "shutdown":
		return ShutDown{}, nil
	case "leave":
		var queued []uint32
		for name := range strings.SplitSeq(w.named["queued"], ",") {
			if ord, err := strconv.Atoi(name); err == nil {
				queued = append(queued, uint32(ord))
			}
		}
		return Leave{Queued: queued}, nil
	case "compact":
		return Compact{}, nil
	}
	return bindCommand(verb, r, w)
}

// archive builds a command about archives.
func (s *scene) archive(verb string, r session.Key, w words) (Command, error) {
	switch {
	case verb == "discard":
		return &Discard{Run: r, Reason: w.named["why"]}, nil
	case verb == "putaway":
		return ArchiveDone{Run: r, Session: w.named["of"], Failed: w.has("failed")}, nil
	case s.records[r] == nil:
		return nil, fmt.Errorf("nothing is known of %q", w.at(0))
	}
	return &Revive{State: s.records[r], Dry: w.has("dry")}, nil
}

// skillsOf returns the skills that a word names.
func skillsOf(w words) *SkillSet {
	set := &SkillSet{Version: w.named["version"]}
	for name := range strings.SplitSeq(w.named["of"], ",") {
		if name != "" {
			set.Skills = append(set.Skills, SkillRef{name, "d-" + name})
		}
	}
	return set
}

// announceRest names sessions with the runs that they are at, or with that of the word run.
func (s *scene) announceRest(w words) Command {
	c := AnnounceRest{}
	for _, name := range w.list {
		id := w.named["run"]
		if r := s.tree.Run(s.names[name]); r != nil && id == "" {
			id = r.RunID()
		}
		c.Keys, c.Runs = append(c.Keys, s.names[name]), append(c.Runs, id)
	}
	return c
}

// routeOf returns the route that a word names: channel/account/to/thread, of which each may be
// empty and the last ones left out. It returns nil for the empty word.
func routeOf(word string) *session.Route {
	if word == "" {
		return nil
	}
	parts := append(strings.Split(word, "/"), "", "", "")
	return &session.Route{Channel: parts[0], Account: parts[1], To: parts[2], Thread: parts[3]}
}

// postOf returns a message with what its words say.
func postOf(to, from session.Key, w words) *Post {
	c := &Post{To: to, From: from, ID: w.named["id"], Text: Text(w.named["text"])}
	c.Route = routeOf(w.named["route"])
	c.RunID, c.Announce, c.ByModel = w.named["run"], w.has("announce"), w.has("model")
	c.Origin, c.Thread = w.named["origin"], w.has("thread")
	if w.has("file") {
		file := session.File{Hash: strings.Repeat("a", 64), Size: 1}
		mailOf(c).Parts = []session.Part{{Kind: session.PartFile, File: file}}
		c.SessionID = w.named["in"]
	}
	for name := range strings.SplitSeq(w.named["with"], ",") {
		if name != "" {
			mailOf(c).Parts = append(c.Mail.Parts, session.Part{
				Kind: session.PartImage, Name: name, URL: "https://example.org/" + name,
			})
		}
	}
	if by, name, _ := strings.Cut(w.named["by"], "/"); by != "" {
		mailOf(c).Sender = session.Sender{ID: by, Name: name}
	}
	if k, v, ok := strings.Cut(w.named["meta"], ":"); ok {
		mailOf(c).Meta = map[string]string{k: v}
	}
	return c
}

// mailOf returns what a message has beside its text, and makes it.
func mailOf(c *Post) *Mail {
	if c.Mail == nil {
		c.Mail = new(Mail)
	}
	return c.Mail
}

func (s *scene) spawn(w words) Command {
	name := w.at(1)
	parent := s.names[w.at(0)]
	c := &Spawn{
		Turn: uint32(w.num("turn")), Parent: parent, ID: name,
		Key: w.named["key"], Origin: w.named["origin"], Task: Text(w.named["task"]), Announce: !w.has("collect"),
		Milestones: w.has("milestones"), Again: w.has("again"),
		Thread: w.has("thread"), Bind: routeOf(w.named["bind"]), Session: w.has("session"),
		Delete: w.has("delete"), Dry: w.has("dry"),
		Request: policy.Request{
			ByModel: w.has("model"),
			Timeout: w.duration("timeout"), Budget: policy.Budget{Tokens: int64(w.num("budget"))},
		},
	}
	if c.Task == "" {
		c.Task = Text("task of " + name)
		if key := parent.String() + " " + c.Key; c.Key != "" && s.tasks[key] != "" {
			c.Task = s.tasks[key]
		} else {
			s.tasks[key] = c.Task
		}
	}
	if w.has("blank") {
		c.Task = " "
	}
	if key, err := parent.Child("main", name); err == nil && s.names[name] == (session.Key{}) {
		s.names[name] = key
		s.replace = slices.Insert(s.replace, 0, key.String(), name)
	}
	return c
}

func (s *scene) turn(r session.Key, w words) uint32 {
	if n := w.num("n"); n > 0 {
		return uint32(n)
	}
	if x := s.tree.Run(r); x != nil {
		return x.Turns
	}
	return 0
}

// file returns a file of so many bytes, or the zero File.
func (w words) file(name string) (f session.File) {
	if n := w.num(name); n > 0 {
		f = session.File{Hash: strings.Repeat("a", 64), Size: int64(n)}
	}
	return f
}

func (s *scene) done(r session.Key, w words) Command {
	c := &TurnDone{
		Run: r, N: s.turn(r, w), Failed: w.named["fail"], Budget: w.has("overspent"),
		Untouched: w.has("untouched"),
		Silent:    w.has("silent"), Skip: w.has("skip"),
		Pos: uint64(w.num("pos")), Compacted: uint32(w.num("compacted")),
		Answer: &Result{
			Text: Text(w.named["say"]), Reply: Text(w.named["reply"]),
			ReplyTo: Text(w.named["to"]), Voice: w.has("voice"),
			Model: Text(w.named["of-model"]), Usage: Usage{Input: int64(w.num("used"))},
		},
	}
	for part := range strings.SplitSeq(w.named["models"], ",") {
		if model, used, ok := strings.Cut(part, ":"); ok {
			n, _ := strconv.ParseInt(used, 10, 64)
			u := Usage{Input: n}
			c.Answer.ByModel = append(c.Answer.ByModel, ModelUsage{Text(model), u})
			c.Answer.Usage = c.Answer.Usage.add(u)
		}
	}
	c.Answer.Whole, c.Answer.WholeJSON = w.file("whole"), w.file("json")
	if _, ok := w.named["yield"]; ok {
		c.Yield = &Join{Need: uint32(w.num("yield"))} // not a number: all
		for name := range strings.SplitSeq(w.named["of"], ",") {
			if name != "" {
				c.Yield.Keys = append(c.Yield.Keys, s.names[name])
			}
		}
		if d := w.duration("within"); d > 0 {
			c.Yield.Within, c.Yield.ByModel = int64(d), w.has("model")
		}
		c.Yield.Rest = map[string]Rest{"stop": RestStop, "announce": RestAnnounce}[w.named["rest"]]
	}
	return c
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
		case e.Run != nil && e.To != nil:
			name = fmt.Sprintf("%s from %s: %s", e.Run.Key(), wordsOf(&e.To.Route), e.ID)
		case e.Run != nil:
			name = e.Run.Key().String()
		case e.To != nil:
			name = "completions"
			if e.To.Reply {
				name = "replies"
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

// showUsage prints what every session has used, and when it was last active.
func (s *scene) showUsage() string {
	var b strings.Builder
	s.tree.Walk(func(r *Run) {
		at := time.Unix(0, r.LastActive()).UTC()
		fmt.Fprintf(&b, "%s active %s\n", r.Key(), at.Format("2006-01-02 15:04"))
		r.Expenses(func(x Expense, gone bool) {
			who, start := "it", x.Middle.Add(-x.Length/2)
			if gone {
				who = "gone below it"
			}
			fmt.Fprintf(&b, "  %s as %s with %q from %s for %v: %d\n", who, x.Agent, x.Model,
				start.Format("2006-01-02 15:04"), x.Length, x.Usage.Input)
		})
	})
	return strings.NewReplacer(s.replace...).Replace(b.String())
}

// show prints where every session stands, the outbox, and when the tree wants to be looked at.
func (s *scene) show() string {
	var b strings.Builder
	s.tree.Walk(func(r *Run) {
		fmt.Fprintf(&b, "%s%s %v", strings.Repeat("  ", r.Spec.Depth), r.Key(), r.State)
		if r.Cause != NoCause {
			fmt.Fprintf(&b, " (%v: %s)", r.Cause, r.Reason)
		}
		b.WriteString(runsOf(r))
		if r.Answer != nil && r.Answer.Text != "" {
			fmt.Fprintf(&b, " %s", quoteShort(r.Answer.Text))
		}
		if n := r.nUser + r.nComp + r.nControl; n > 0 {
			fmt.Fprintf(&b, " unread %d", n)
		}
		if r.Join != nil {
			fmt.Fprintf(&b, " waits for %d", r.Join.Left)
		}
		if k := r.Skills; k != nil {
			fmt.Fprintf(&b, " skills %v of version %s", k.Skills, k.Version)
		}
		if r.Asked != nil {
			fmt.Fprintf(&b, " owes %s", strings.Join(r.Asked.IDs, " "))
		}
		for _, x := range r.Said {
			fmt.Fprintf(&b, " said %d%s %s", x.Num, x.ID, quoteShort(x.Text))
		}
		if r.Pos > 0 {
			fmt.Fprintf(&b, " to position %d", r.Pos)
		}
		for _, x := range r.Former {
			fmt.Fprintf(&b, " puts %s away at %d", x.ID, x.Pos)
		}
		b.WriteString(milestonesOf(r))
		if r.IsRoot() && r.Route != nil {
			b.WriteString(" at " + wordsOf(r.Route))
		}
		b.WriteString(laterOf(r))
		if r.Charged.Tokens > 0 {
			fmt.Fprintf(&b, " charged %d", r.Charged.Tokens)
		}
		b.WriteByte('\n')
	})
	b.WriteString(s.requests())
	s.tree.Outbox(func(e *Entry) {
		fmt.Fprintf(&b, "entry %d to %s tries %d", e.Ord, e.To, e.Tries)
		if e.Blocked > 0 {
			b.WriteString(" blocked")
		}
		if e.Late {
			b.WriteString(" late")
		}
		if e.MayRepeat() && e.Tries == 0 {
			b.WriteString(" may repeat")
		}
		if mark := s.tree.MarkOf(e.Ord); mark != "" {
			b.WriteString(" of " + mark)
		}
		if len(e.InReplyTo) > 0 {
			fmt.Fprintf(&b, " answers %s", strings.Join(e.InReplyTo, " "))
		}
		for k, v := range e.Meta {
			fmt.Fprintf(&b, " with %s:%s", k, v)
		}
		if e.Reply && e.Route != nil {
			b.WriteString(" at " + wordsOf(e.Route))
		}
		b.WriteByte('\n')
	})
	b.WriteString(keptOf(s.tree))
	switch due := s.tree.Due(); {
	case due.IsZero():
		b.WriteString("due never\n")
	case due.UnixNano() <= s.now:
		b.WriteString("due now\n")
	default:
		fmt.Fprintf(&b, "due in %s\n", time.Duration(due.UnixNano()-s.now))
	}
	return strings.NewReplacer(s.replace...).Replace(b.String())
}

// keptOf says what has become of runs with a key that have left the tree.
func keptOf(t *Tree) string {
	var b strings.Builder
	for _, kept := range t.Image().Spawned {
		if end := kept.End; end != nil {
			fmt.Fprintf(&b, "key %s gives %s, which ended %v", kept.Key, kept.Run, end.State)
			if end.Answer != nil && end.Answer.Text != "" {
				fmt.Fprintf(&b, " %s", quoteShort(end.Answer.Text))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// requests says what requests have been charged, if they have a budget.
func (s *scene) requests() string {
	var b strings.Builder
	if BudgetOf(s.rules.RequestBudget).Limited() {
		for _, c := range s.tree.requestCounts() {
			fmt.Fprintf(&b, "request %s charged %d in %d turns\n", c.Request, c.Charged.Tokens,
				c.Charged.Turns)
		}
	}
	return b.String()
}

// laterOf says what has been decided on a session since its spawn.
func laterOf(r *Run) string {
	var b strings.Builder
	for _, c := range r.Bound {
		b.WriteString(" bound to " + wordsOf(&c.Route))
	}
	if r.Announce {
		b.WriteString(" announced")
	}
	return b.String()
}

// milestonesOf says how many milestones a session has reported, and which it has not read.
func runsOf(r *Run) string {
	var b strings.Builder
	if r.Begin != nil {
		fmt.Fprintf(&b, " run %s after", r.Begin.ID)
		for i := range r.Past {
			fmt.Fprintf(&b, " %s", cmp.Or(r.Past[i].name(), "the first"))
		}
	}
	return b.String()
}

func milestonesOf(r *Run) string {
	var b strings.Builder
	if r.Milestones > 0 {
		fmt.Fprintf(&b, " milestones %d", r.Milestones)
	}
	for _, in := range r.Inbox {
		if in.Class == Milestone {
			fmt.Fprintf(&b, " input %d of %s %s", in.Ord, in.From, quoteShort(in.Text))
		}
	}
	return b.String()
}
