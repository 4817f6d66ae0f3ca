package tree

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

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

// people returns the people for whom a command is.
func (w words) people() (list []policy.Sender) {
	for id := range strings.SplitSeq(w.named["for"], ",") {
		if id != "" {
			list = append(list, policy.Sender{ID: id, Channel: "irc"})
		}
	}
	return list
}

// ordinals returns the numbers of a list with commas.
func (w words) ordinals(name string) (ords []uint32) {
	for word := range strings.SplitSeq(w.named[name], ",") {
		if ord, err := strconv.Atoi(word); err == nil {
			ords = append(ords, uint32(ord))
		}
	}
	return ords
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
	case "write":
		return s.write(r, w), nil
	case "steer":
		return &Steer{
			From: r, To: s.names[w.at(1)], ID: w.named["id"], Text: Text(w.named["text"]),
			Senders: w.people(),
		}, nil
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
	case "keep":
		return Keep{Run: r, N: s.turn(r, w), Kept: Text(w.named["value"])}, nil
	case "cancel_turn":
		return CancelTurn{Run: r}, nil
	case "stop":
		return &Stop{Run: r, Reason: w.named["why"]}, nil
	case "settle":
		ord, err := strconv.Atoi(w.at(0))
		return &Settle{
			Ord: uint32(ord), Error: w.named["error"], Busy: w.has("busy"), Hangs: w.has("hangs"),
			Never: w.has("never"), Wait: int64(w.duration("wait")), More: w.ordinals("more"),
		}, err
	case "ready":
		return Ready{To: r}, nil
	case "retry":
		ord, err := strconv.Atoi(w.at(0))
		return Retry{Ord: uint32(ord)}, err
	case "dismiss":
		ord, err := strconv.Atoi(w.at(0))
		return Dismiss{Ord: uint32(ord)}, err
	case "announce_rest":
		return s.announceRest(w), nil
	case "discard", "revive", "restored", "putaway", "abandon", "dropped":
		return s.archive(verb, r, w)
	case "tick":
		return Tick{}, nil
	case "shutdown":
		return ShutDown{}, nil
	case "leave":
		return Leave{Queued: w.ordinals("queued")}, nil
	case "compact":
		return Compact{}, nil
	}
	return bindCommand(verb, r, w)
}

// write builds a message to the top-level session of another tree, of the turn under way unless a
// program sends it.
func (s *scene) write(r session.Key, w words) Command {
	to, err := session.MainKey(w.at(1))
	if err != nil {
		to = s.names[w.named["to"]]
	}
	c := &SendOut{
		From: r, To: to, ID: w.named["id"], Text: Text(w.named["text"]), Senders: w.people(),
	}
	if w.has("program") {
		return c
	}
	return InTurn{Run: r, N: s.turn(r, w), Cmd: c}
}

// archive builds a command about archives.
func (s *scene) archive(verb string, r session.Key, w words) (Command, error) {
	switch {
	case verb == "discard":
		return &Discard{Run: r, Reason: w.named["why"]}, nil
	case verb == "putaway":
		return ArchiveDone{Run: r, Session: w.named["of"], Failed: w.has("failed")}, nil
	case verb == "abandon":
		return Abandon{ID: w.at(0)}, nil
	case verb == "dropped":
		return DropDone{Run: r, Failed: w.has("failed")}, nil
	case verb == "restored":
		return RestoreDone{Run: r, Failed: w.has("failed")}, nil
	case s.records[r] == nil:
		return nil, fmt.Errorf("nothing is known of %q", w.at(0))
	}
	return &Revive{State: s.records[r]}, nil
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
	c.Senders = w.people()
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
		Name: w.named["name"],
		Key:  w.named["key"], Origin: w.named["origin"], Task: Text(w.named["task"]),
		Announce:   !w.has("collect"),
		Milestones: w.has("milestones"), Again: w.has("again"), Update: w.has("update"),
		Route:  routeOf(w.named["route"]),
		Thread: w.has("thread"), Bind: routeOf(w.named["bind"]), Session: w.has("session"),
		Delete: w.has("delete"), Dry: w.has("dry") || w.has("deposit"),
		Senders: w.people(),
		Files:   w.has("files") || w.has("deposit"), Deposits: w.has("deposit"),
		Variant: w.named["variant"],
		Request: policy.Request{
			ByModel: w.has("model"),
			Timeout: w.duration("timeout"), Announce: announceStep(w),
			Budget: policy.Budget{Tokens: int64(w.num("budget"))},
		},
	}
	if w.has("extra") {
		c.Extra = []byte(`{}`)
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

// announceStep returns how a run is announced.
func announceStep(w words) policy.AnnounceStep {
	if w.has("step") {
		return policy.AnnounceTurn
	}
	return policy.AnnounceInherit
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
	more := ResultMore{
		Refused: Text(w.named["refuse"]), Whole: w.file("whole"), WholeJSON: w.file("json"),
	}
	for part := range strings.SplitSeq(w.named["models"], ",") {
		if model, used, ok := strings.Cut(part, ":"); ok {
			n, _ := strconv.ParseInt(used, 10, 64)
			u := Usage{Input: n}
			more.ByModel = append(more.ByModel, ModelUsage{Text(model), u})
			c.Answer.Usage = c.Answer.Usage.add(u)
		}
	}
	if !reflect.ValueOf(more).IsZero() {
		c.Answer.ResultMore = &more
	}
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
