package kill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A world says who runs the top-level sessions.
type world string

const (
	// the program: it spawns, joins, and gets completions through Deliver
	callerRun world = "caller-run"
	// Offshoot: they get posts, read completions in their inbox, and reply
	managed world = "managed"
)

const (
	numBots = 36 // trees that work and rest in turns
	// how many trees at a time are made for one long text and never seen again, where there is room
	// for them
	numGuests = 2
	longText  = 200 << 10 // bytes of that text: some of them are enough to compact the log
	// milliseconds for which a bot rests: a tree in which nothing is due leaves the log when it is
	// compacted
	maxRest      = 400
	archiveAfter = 20 * time.Millisecond

	afterFailure = 20 * time.Millisecond // until a caller that was refused asks again
)

func botKey(i int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprint("bot", i)))
}

// mayBeStopped reports whether a tree is stopped now and then; what it owes may end with that.
func mayBeStopped(root session.Key) bool {
	var i int
	n, _ := fmt.Sscanf(root.String(), "agent:main:bot%d", &i)
	return n == 1 && i%3 == 0
}

// apologyTo is what arrives in the place of what a tree has given up.
func apologyTo(root session.Key) string { return "apology:" + root.String() }

// A workload is a program that uses a Runtime in every way until its context ends.
type workload struct {
	world  world
	life   string
	modest bool   // no guests: nothing that takes much room
	text   int    // bytes of a guest's text; zero: longText
	keep   bool   // nothing is archived
	dir    string // the work directory of all agents; "": they have none
	// report is called with what was acknowledged: "appended <last> <root>"; "owed <thing> <root>",
	// a message or a run that must be told of; "stopped <root>"; "interrupted <run> <root>", which
	// is a mistake; "wrong ...", which is one too; "note ...", what went wrong.
	tell func(format string, args ...any)
	// arrive is called with what leaves a tree, and the things of which it tells.
	arrive func(key string, things ...string) error
	// fail is called with what could not be done; nil: the load tells it as a note.
	fail func(what string, err error)
}

func (l *workload) failed(what string, err error) {
	if l.fail == nil {
		l.tell("note %s: %v", what, err)
		return
	}
	l.fail(what, err)
}

// A reportingJournal tells of every append.
type reportingJournal struct {
	session.Journal
	tell func(format string, args ...any)
}

func (j reportingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	last, err := j.Journal.Append(ctx, root, after, b)
	if err == nil {
		j.tell("appended %d %s", last, root)
	}
	return last, err
}

func (l *workload) config(store *session.Store) agent.Config {
	cfg := agent.Config{
		Runner: agent.RunnerFunc(l.run),
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 3, MaxChildren: policy.MaxChildren, MaxConcurrent: 32,
			ArchiveAfter: archiveAfter,
		}},
		Store: &session.Store{
			Journal:     reportingJournal{store.Journal, l.tell},
			Transcripts: store.Transcripts,
			Files:       store.Files,
		},
		Grace: 2 * time.Second, // a disk of a machine that has much to do takes its time
	}
	if l.dir != "" {
		cfg.WorkDir = func(string) string { return l.dir }
	}
	cfg.Rules.Attachments.Retain = crc32.ChecksumIEEE([]byte(l.life))%2 == 0
	if l.keep {
		cfg.Rules.Subagents.ArchiveAfter = policy.Off
	}
	if l.world == callerRun {
		cfg.Deliver = func(_ context.Context, d agent.Delivery) error {
			if d.Completion.Run.Status == spawn.StatusInterrupted {
				l.tell("interrupted %s %s", d.Completion.Run.ID, d.To)
			}
			return l.arrive(d.Key, string(d.Completion.Run.ID))
		}
	} else {
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			if d.Reply.Failed { // it was killed three times over the same messages
				return l.arrive(d.Key, apologyTo(d.To))
			}
			return l.arrive(d.Key, strings.Fields(d.Reply.Text)...)
		}
	}
	return cfg
}

// waitIdle waits until nothing is under way in the trees that work again and again.
func (l *workload) waitIdle(ctx context.Context, rt *agent.Runtime) error {
	for i := range numBots {
		if err := rt.Session(botKey(i)).Idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// work goes on until ctx ends.
func (l *workload) work(ctx context.Context, rt *agent.Runtime) {
	var wg sync.WaitGroup
	for i := range numBots {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.round(ctx, rt.Session(botKey(i)), n)
			}
		})
	}
	for i := range numGuests {
		if l.modest {
			break
		}
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.visit(ctx, rt.Session(session.Must(session.NamedKey("main",
					fmt.Sprintf("guest%d-%s-%d", i, l.life, n)))))
			}
		})
	}
	wg.Wait()
}

// tasksOfRounds are what bots are asked for in turn.
var tasksOfRounds = [][]string{{"answer", "fan out"}, {"answer", "fail"}, {"answer"}}

// round gives a bot work, waits for its end or stops it, and lets it rest.
func (l *workload) round(ctx context.Context, s *agent.Session, n int) {
	name := fmt.Sprintf("%s-%s-%d", strings.TrimPrefix(s.Key().String(), "agent:main:"), l.life, n)
	children := l.ask(ctx, s, name, tasksOfRounds[n%len(tasksOfRounds)]...)
	if mayBeStopped(s.Key()) && n%2 == 0 {
		if err := s.Stop(ctx); err != nil {
			l.failed("stop", err)
		} else {
			l.tell("stopped %s", s.Key())
		}
		return
	}
	l.await(ctx, s, children)
	if n%3 == 2 {
		l.reset(ctx, s)
	}
	sleep(ctx, time.Duration(rand.IntN(maxRest))*time.Millisecond)
}

// reset begins a new conversation, unless the bot is not done with the old one.
func (l *workload) reset(ctx context.Context, s *agent.Session) {
	err := s.Reset(ctx)
	if _, busy := errors.AsType[*agent.ChildrenError](err); err != nil && !busy {
		l.failed("reset", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// visit has a tree that has not been used before do something once.
func (l *workload) visit(ctx context.Context, s *agent.Session) {
	name := strings.TrimPrefix(s.Key().String(), "agent:main:")
	l.await(ctx, s, l.ask(ctx, s, name,
		"remember "+strings.Repeat("a long text ", cmp.Or(l.text, longText)/12)))
}

// ask gives a session tasks, and tells what was acknowledged.
func (l *workload) ask(
	ctx context.Context, s *agent.Session, name string, tasks ...string,
) (children []*agent.Child[string]) {
	if l.world == managed {
		m := agent.Incoming{ID: name, Text: strings.Join(tasks, ";")}
		if _, err := s.Post(ctx, m); err != nil {
			l.failed("post "+name, err)
			sleep(ctx, afterFailure)
		} else {
			l.tell("owed %s %s", name, s.Key())
		}
		return nil
	}
	for i, text := range tasks {
		task := l.task(name, i, text)
		l.refused(ctx, s, task.Label)
		child, err := agent.Spawn[string](ctx, s, task)
		if err != nil {
			l.failed("spawn "+task.Label, err)
			sleep(ctx, afterFailure)
			continue
		}
		l.tell("owed %s %s", child.ID(), s.Key())
		children = append(children, child)
	}
	return children
}

func (l *workload) task(name string, i int, text string) agent.Task {
	label := fmt.Sprintf("%s/%d", name, i)
	task := agent.Task{
		Text: text, Label: label, Key: label, Announce: true, Attachments: attachmentsOf(label),
	}
	if !l.keep {
		task.Cleanup = agent.Cleanup(crc32.ChecksumIEEE([]byte(label)) >> 8 % 2)
	}
	return task
}

// patience is how long a bot waits for what it has asked for.
const patience = 2 * time.Second

func (l *workload) await(ctx context.Context, s *agent.Session, children []*agent.Child[string]) {
	if l.world == managed {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := s.Idle(ctx); err != nil {
			l.failed("idle", err)
		}
		return
	}
	if _, err := agent.Join(ctx, s, children, agent.JoinOptions{Within: patience}); err != nil {
		l.failed("join", err)
	}
}

// run is every turn of every session.
func (l *workload) run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	fresh := t.Messages[len(t.Messages)-t.New:]
	if t.Run == "" {
		return l.top(ctx, t, fresh)
	}
	if fresh[len(fresh)-1].Internal {
		return agent.Result{Text: "all of them are back"}, nil
	}
	if err := checkAttached(t); err != nil {
		if errors.Is(err, errOtherFiles) && ctx.Err() == nil {
			l.tell("wrong %s: %v", t.Label, err)
		}
		return agent.Result{}, err
	}
	input := t.Input()
	switch {
	case strings.Contains(input, "fan out"):
		for i := range 3 {
			text := "answer"
			if i == 0 && t.Session.Depth < 2 {
				text = "fan out"
			}
			task := l.task(t.Label, i, text)
			l.refused(ctx, t, task.Label)
			if _, err := t.Spawn(ctx, task); err != nil {
				return agent.Result{}, err
			}
		}
		t.Yield(agent.JoinOptions{})
		return agent.Result{}, nil
	case strings.Contains(input, "fail"):
		return agent.Result{Text: "so far"}, errors.New("this one always fails")
	}
	select {
	case <-ctx.Done():
		return agent.Result{Text: "cut"}, ctx.Err()
	case <-time.After(l.workTime(t.Label)):
		return agent.Result{Text: "the answer of " + t.Label + l.padding(t.Label)}, nil
	}
}

// workTime is how long a sub-agent works. One with attachments does so for long enough that it is
// killed meanwhile now and then.
func (l *workload) workTime(label string) time.Duration {
	if len(filesOf(label)) > 0 && l.dir != "" {
		return 30 * time.Millisecond
	}
	return 2 * time.Millisecond
}

// padding makes the answers of some sub-agents so long that they are kept in a file.
func (l *workload) padding(label string) string {
	if l.modest || crc32.ChecksumIEEE([]byte(label))%6 != 0 {
		return ""
	}
	return strings.Repeat(" long", 15_000)
}

// top is a turn of a top-level session that Offshoot runs. It starts what people ask for, and
// replies with the names of what it has read.
func (l *workload) top(
	ctx context.Context, t *agent.Turn, fresh []agent.Message,
) (agent.Result, error) {
	var read []string
	for _, m := range fresh {
		read = append(read, m.ID)
		if m.Internal {
			continue
		}
		for i, text := range strings.Split(m.Text, ";") {
			if strings.HasPrefix(text, "remember") {
				continue
			}
			task := l.task(m.ID, i, text)
			child, err := t.Spawn(ctx, task)
			if err != nil {
				l.failed("spawn "+task.Label, err)
				continue
			}
			l.tell("owed %s %s", child.ID(), t.Session.Key)
		}
	}
	return agent.Result{Text: strings.Join(read, " ")}, nil
}
