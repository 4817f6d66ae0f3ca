package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// workDirField is the path of the function that returns work directories.
const workDirField = "WorkDir"

// A DirError says why a [Task] cannot have its Dir. It is an *[InputError] too, whose Field is
// Task.Dir. It says nothing of what is outside of the work directory, not even whether it exists.
type DirError struct {
	Dir    string // as it was asked for
	Agent  string // of the sub-agent
	Reason string // for people
	// Err is [ErrNoWorkDir], [ErrDirOutside], [ErrNotDir], fs.ErrNotExist, fs.ErrPermission, or
	// fs.ErrInvalid for what is not a path or cannot be looked at. Of one that is too long it is
	// a *[LimitError] as well.
	Err error
}

// What is wrong with the Dir of a [DirError].
var (
	ErrNoWorkDir  = errors.New("agent: the agent has no work directory")
	ErrDirOutside = workdir.ErrOutside // by its path, or through a link
	ErrNotDir     = workdir.ErrNotDir
)

func (e *DirError) Error() string { return e.input().Error() }

func (e *DirError) input() *InputError {
	return &InputError{Field: "Task.Dir", Reason: e.Reason}
}

// Unwrap returns Err and the same as an *[InputError].
func (e *DirError) Unwrap() []error { return []error{e.Err, e.input()} }

// Why a sub-agent cannot be given a directory, and what the rule is.
const (
	noWorkDir = "%s cannot be given, since agent %q has no work directory (Config.WorkDir); name " +
		"the directory in the task instead"
	dirRule = "%v: want a directory inside the work directory of agent %q (Config.WorkDir), which " +
		"no link may lead out of"
)

// workPlace returns the directory that a session of an agent works in, with all links followed: the
// work directory of the agent, or what a task asks for below it. It is the zero Place for an agent
// that has none.
func (c *Config) workPlace(agent, asked string) (p workdir.Place, err error) {
	base := ""
	if c.WorkDir != nil {
		base = c.WorkDir(agent)
	}
	switch {
	case base == "" && asked == "":
		return p, nil
	case base == "":
		return p, &DirError{
			asked, agent, fmt.Sprintf(noWorkDir, text.QuoteWhole(asked), agent), ErrNoWorkDir,
		}
	}
	p, err = workdir.Resolve(base, asked)
	if bad, ok := errors.AsType[*workdir.BaseError](err); ok {
		err = fmt.Errorf("the work directory of agent %q: %w", agent, bad)
		return p, &CallbackError{Field: workDirField, Err: err}
	}
	if bad, ok := errors.AsType[*workdir.PathError](err); ok {
		return p, &DirError{asked, agent, fmt.Sprintf(dirRule, bad, agent), bad.Err}
	}
	return p, err
}

// findPlace is workPlace outside of a turn, which contains a panic.
func (c *Config) findPlace(agent, asked string) (p workdir.Place, err error) {
	err = protect(workDirField, func() (err error) {
		p, err = c.workPlace(agent, asked)
		return err
	})
	return p, redact(err)
}

// askPlace is workPlace for the sub-agent of a task, in a goroutine that the spawn can leave.
func (t *Task) askPlace(ctx context.Context, from Requester) (p workdir.Place, err error) {
	rt, _ := from.actor()
	agent := t.agentFor(from)
	if rt.cfg().WorkDir == nil {
		p, err = rt.cfg().workPlace(agent, t.Dir)
		return p, redact(err)
	}
	p, err = asked(ctx, rt, from.sessionKey(), workDirField,
		func(context.Context) (workdir.Place, error) {
			return rt.cfg().workPlace(agent, t.Dir)
		})
	return p, redact(err)
}

// agentFor returns the agent of the sub-agent of a task, as its key has it.
func (t *Task) agentFor(from Requester) string {
	rt, _ := from.actor()
	own := rt.cfg().Rules.AgentOf(from.sessionKey())
	return t.agentBelow(own)
}

// agentBelow is agentFor by the agent of the requester.
func (t *Task) agentBelow(own string) string {
	return cmp.Or(strings.ToLower(strings.TrimSpace(t.Agent)), own)
}

// equip finds the directory that the sub-agent of a task is to work in. Nothing is looked for on
// behalf of what a rule refuses, and no attachment is read. It returns the run of a Key that is
// known, if the directory of that is gone.
func (t *Task) equip(ctx context.Context, from Requester, x *runExtra) (known RunInfo, err error) {
	rt, _ := from.actor()
	q, err := t.request(*x)
	if q.Files = len(t.Attachments) > 0; err == nil {
		known, err = wouldSpawn(ctx, from, q)
	}
	if q.Files {
		known = RunInfo{} // it may be that of other files
	}
	if err == nil {
		err = t.checkAttaching(&rt.cfg().Rules)
	}
	if err != nil {
		return RunInfo{}, err
	}
	if x.Runtime, err = rt.cfg().runtimeFor(t, from.sessionKey()); err != nil {
		if known.ID != "" {
			return known, nil // its runtime may be gone
		}
		return RunInfo{}, err
	}
	x.Stream = t.Stream
	if t.Dir != "" {
		p, err := t.askPlace(ctx, from)
		switch {
		case err == nil:
			x.Dir = p.Rel
		case known.ID != "":
			return known, nil
		default:
			return RunInfo{}, err
		}
	}
	return RunInfo{}, nil
}

// dirVariant returns what tells a task from another one with the same Key that works elsewhere.
func (t *Task) dirVariant() string {
	if t.Dir == "" {
		return ""
	}
	return "\ndir " + filepath.ToSlash(filepath.Clean(t.Dir))
}

// wouldSpawn has the spawn of a request decided, and nothing done. It returns the run that its Key
// is known for, if that is the same task.
func wouldSpawn(ctx context.Context, from Requester, q spawn.Request) (RunInfo, error) {
	q.Dry, q.Bind = true, session.Route{}
	known, err := from.spawnRun(ctx, q)
	return known, err
}

// execution opens a directory that a session works in, for its AGENTS.md. The caller calls done. Of
// a directory that cannot be opened each file is one that cannot be read.
func execution(p workdir.Place) (dir fs.FS, done func()) {
	if p.Base == "" {
		return nil, func() {}
	}
	root, err := workdir.Open(p)
	if err != nil {
		return closedDir{err}, func() {}
	}
	return root.FS(), func() { _ = root.Close() } // nothing was written
}

// A closedDir is a directory that could not be opened.
type closedDir struct{ err error }

// Open implements fs.FS.
func (d closedDir) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: d.err}
}

// instructionsLog has a log say once why the AGENTS.md of a directory is left out. The zero value
// is ready, and its method is safe for concurrent use.
type instructionsLog struct {
	mu   sync.Mutex
	said map[string]string // why, by directory
}

// maxSaid is how many directories are remembered: tasks may name ever new ones.
const maxSaid = 1000

// news reports whether it was not said yet that the file of a directory is left out for a reason.
// An empty reason forgets the directory.
func (l *instructionsLog) news(dir, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.said[dir]
	switch {
	case why == "":
		delete(l.said, dir)
	case was != "" || len(l.said) < maxSaid:
		if l.said == nil {
			l.said = make(map[string]string)
		}
		l.said[dir] = why
	}
	return why != was && why != ""
}

// tellInstructions logs that the AGENTS.md of the directory of a turn is there and not in the
// prompt.
func (rt *Runtime) tellInstructions(t *Turn, files []agentctx.WorkspaceFile) {
	if t.place.Base == "" {
		return
	}
	why, reason := "", agentctx.ReasonWhole
	for _, f := range files {
		if f.Name == agentctx.ExecutionFile && f.Missing && f.Reason != agentctx.ReasonAbsent {
			why, reason = cmp.Or(f.Why, f.Reason.String()), f.Reason
		}
	}
	if rt.leftOut.news(t.Dir, why) {
		rt.log.Warn("offshoot: the AGENTS.md of a directory is left out of the prompt",
			"session", t.Session.Key.String(), "dir", t.Dir, "reason", reason.String(), "why", why)
	}
}

// setDir says in a prompt which directory the tools work in. The repository is told of if it is of
// the directory that the Config names.
func setDir(in *agentctx.Input, p workdir.Place) {
	dir := p.Dir()
	if dir == "" || dir == in.Env.Dir {
		return
	}
	if in.Env.Repo != "" {
		in.Env.Repo = agentctx.HostEnv(dir).Repo
	}
	in.Env.Dir = dir
}

// openPlace finds the directory that the turn works in. A link may lead elsewhere than at the
// spawn, or the directory may be gone.
func (t *Turn) openPlace(dir string) (err error) {
	t.entering(workDirField)
	t.place, err = t.rt.cfg().workPlace(t.rt.cfg().Rules.AgentOf(t.Session.Key), dir)
	if err != nil {
		return fmt.Errorf("agent: turn %d of %q has no directory to work in: %w", t.N,
			t.Session.Key, err)
	}
	t.Dir = t.place.Dir()
	return nil
}

// withDirs returns a schema of sessions_spawn with what it has where agents have work directories.
func (c *Config) withDirs(schema json.RawMessage) json.RawMessage {
	if c.WorkDir == nil {
		return schema
	}
	return bytes.Replace(schema, []byte(`"sandbox":`), []byte(
		`"cwd":{"type":"string","description":"where it works: a directory inside the work `+
			`directory of its agent; default: that itself"},"sandbox":`), 1)
}

// An attachedDirs knows which sub-agents have a turn under way that may read their files in a work
// directory, and keeps a removal apart from such a turn. The zero attachedDirs is ready.
type attachedDirs struct {
	locks thread.Locks[session.Key]
	mu    sync.Mutex
	turns map[session.Key]int
	fails map[session.Key]int // removals for an archive
}

// use notes that a turn of a session begins, or that it is over.
func (d *attachedDirs) use(key session.Key, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turns == nil {
		d.turns = make(map[session.Key]int)
	}
	if d.turns[key] += n; d.turns[key] == 0 {
		delete(d.turns, key)
	}
}

func (d *attachedDirs) inUse(key session.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns[key] > 0
}

// maxTidies is how often an archive waits for files in a work directory to be removed.
const maxTidies = 3

// failed notes that files could not be removed for an archive, and reports whether the archive is
// to go on without.
func (d *attachedDirs) failed(key session.Key, err error) (goOn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails == nil {
		d.fails = make(map[session.Key]int)
	}
	d.fails[key]++
	if goOn = err == nil || d.fails[key] >= maxTidies; goOn {
		delete(d.fails, key)
	}
	return goOn
}

// A turnFiles is a turn as the source of the files of its session.
type turnFiles Turn

// Open implements attach.Source.
func (f *turnFiles) Open(file attach.File) (io.ReadCloser, error) {
	t := (*Turn)(f)
	return t.OpenFile(t.log.life, file.File)
}

// Over implements attach.Source.
func (f *turnFiles) Over() error { return (*Turn)(f).err() }

// openAttachments gives the turn the files of its session: as an fs.FS, and where it has a
// directory to work in there, too.
func (t *Turn) openAttachments(ctx context.Context, a attached) error {
	t.files.Fill(a.Files, (*turnFiles)(t))
	t.Files = &t.files
	if a.IsZero() || t.place.Base == "" {
		return nil
	}
	key := t.Session.Key
	t.rt.attached.use(key, 1)
	t.attaches = true
	unlock, err := t.rt.attached.locks.Lock(ctx, key)
	if err != nil { // what was written after the end of ctx might be written behind the archive
		return err
	}
	defer unlock()
	if !attach.IsDirName(key.ID()) {
		return fmt.Errorf("agent: attachments of %q: its id is not a name of a directory", key)
	}
	dir := attach.Dir(key.ID())
	root, err := workdir.Open(t.place)
	if err != nil {
		return fmt.Errorf("agent: attachments of %q: %w", key, err)
	}
	files := make([]workdir.Content, len(a.Files))
	for i, f := range a.Files {
		files[i] = workdir.Content{Name: f.Name, Open: func() (io.ReadCloser, error) {
			return t.log.openFile(ctx, f.File)
		}}
	}
	err = workdir.Write(
		root, dir, files, attach.ManifestName, attach.Summarize(dir, a.Files).Manifest())
	if err = errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("agent: attachments of %q: %w", key, err)
	}
	return nil
}

// closeAttachments notes that the turn reads no files any more.
func (t *Turn) closeAttachments() {
	if t.attaches {
		t.rt.attached.use(t.Session.Key, -1)
	}
}

// tidy removes the files of a sub-agent from its work directory: with its archive, and unless the
// Rules say otherwise after each of its runs. A next turn writes them again.
func (rt *Runtime) tidy(ctx context.Context, q spawn.TidyRequest) error {
	x, err := decodeRunExtra(q.Extra)
	if err != nil || x.Attached.IsZero() || rt.cfg().WorkDir == nil {
		return nil
	}
	if !q.Archive && !q.Delete && rt.cfg().Rules.Attachments.Retain {
		return nil
	}
	unlock, err := rt.attached.locks.Lock(ctx, q.Session)
	if err != nil {
		return err
	}
	defer unlock()
	if !q.Archive && rt.attached.inUse(q.Session) {
		return nil // a next run has begun, and has an end of its own
	}
	err = rt.removeAttachments(ctx, q.Session, x)
	if !q.Archive || errors.Is(err, ErrShutdown) { // the next owner archives it
		return err
	}
	if rt.attached.failed(q.Session, err) {
		if err != nil {
			rt.log.Error("offshoot: attachments of an archived sub-agent stay in its work directory",
				"session", q.Session.String(), "dir", attach.Dir(q.Session.ID()),
				"error", redact(err).Error())
		}
		return nil
	}
	return err
}

// removeAttachments removes the directory of the files of a sub-agent, if the place where it works
// is still inside the work directory of its agent. A function that does not say in time where that
// is may say so later: the error has removeAttachments called again.
func (rt *Runtime) removeAttachments(ctx context.Context, key session.Key, x runExtra) error {
	place, err := asked(ctx, rt, key, workDirField, func(context.Context) (workdir.Place, error) {
		return rt.cfg().workPlace(rt.cfg().Rules.AgentOf(key), x.Dir)
	})
	switch {
	case errors.Is(err, ErrNotRecorded), errors.Is(err, thread.ErrHangs):
		return err
	case err != nil:
		rt.log.Warn("offshoot: the directory of attachments cannot be found any more",
			"session", key.String(), "error", fmt.Sprint(redact(err)))
		return nil
	case place.Base == "":
		return nil // the agent has no work directory, so nothing was written
	}
	root, err := workdir.Open(place)
	if err != nil {
		return err
	}
	return errors.Join(workdir.Remove(root, attach.Dir(key.ID())), root.Close())
}

// attachmentsSection is the section of a prompt that tells a sub-agent of its files.
const attachmentsSection = "attachments"

// tellAttachments says in a prompt which files a sub-agent was given, and in which directory below
// Turn.Dir they are; "": in none.
func tellAttachments(in *agentctx.Input, dir string, a attached) {
	if a.IsZero() {
		return
	}
	in.Extra = append(slices.Clip(in.Extra), agentctx.Section{
		ID: attachmentsSection, Class: agentctx.ClassPerSession, Minimal: true, Source: "agent",
		Text: attach.Prompt(dir, a.Hint, a.Files),
	})
}

// attachedDir returns the directory of the files of a session that works in a place, below that;
// "": there is none.
func attachedDir(key session.Key, place workdir.Place) string {
	if place.Base == "" {
		return ""
	}
	return attach.Dir(key.ID())
}
