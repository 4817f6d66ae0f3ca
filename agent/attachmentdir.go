package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

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

// openAttachments gives the turn the files of its session: as an fs.FS, and where it has a
// directory to work in there, too.
func (t *Turn) openAttachments(ctx context.Context, a attached) error {
	t.Files = attach.NewFS(a.Files, func(f attach.File) (io.ReadCloser, error) {
		return t.OpenFile(t.log.life, f.File)
	}, t.err)
	if a.IsZero() || t.place.Base == "" {
		return nil
	}
	key := t.Session.Key
	t.rt.attached.use(key, 1)
	t.attaches = true
	unlock, err := t.rt.attached.locks.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if ctx.Err() != nil { // what was written now might be written behind the archive
		return context.Cause(ctx)
	}
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
	if err != nil || x.Attached.IsZero() || rt.cfg.WorkDir == nil {
		return nil
	}
	if !q.Archive && !q.Delete && rt.cfg.Rules.Attachments.Retain {
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
	err = rt.removeAttachments(q.Session, x)
	if !q.Archive {
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
// is still inside the work directory of its agent.
func (rt *Runtime) removeAttachments(key session.Key, x runExtra) error {
	place, err := rt.cfg.findPlace(rt.cfg.Rules.AgentOf(key), x.Dir)
	if err != nil || place.Base == "" {
		rt.log.Warn("offshoot: the directory of attachments cannot be found any more",
			"session", key.String(), "error", fmt.Sprint(redact(err)))
		return nil
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
		ID: attachmentsSection, Class: agentctx.ClassStable, Minimal: true, Source: "agent",
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
