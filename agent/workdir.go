package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// workDirField is the path of the function that returns work directories.
const workDirField = "WorkDir"

// noWorkDir is why a sub-agent cannot be given a directory.
const noWorkDir = "agent %q has no work directory (Config.WorkDir), so that a sub-agent of it " +
	"cannot be given one; name the directory in the task instead"

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
		return p, &InputError{Field: "Task.Dir", Reason: fmt.Sprintf(noWorkDir, agent)}
	}
	p, err = workdir.Resolve(base, asked)
	if bad, ok := errors.AsType[*workdir.BaseError](err); ok {
		err = fmt.Errorf("the work directory of agent %q: %w", agent, bad)
		return p, &CallbackError{Field: workDirField, Err: err}
	}
	if err != nil {
		return p, &InputError{Field: "Task.Dir", Reason: err.Error()}
	}
	return p, nil
}

// findPlace is workPlace outside of a turn, which contains a panic.
func (c *Config) findPlace(agent, asked string) (p workdir.Place, err error) {
	err = protect(workDirField, func() (err error) {
		p, err = c.workPlace(agent, asked)
		return err
	})
	return p, redact(err)
}

// agentFor returns the agent of the sub-agent of a task, as its key has it.
func (t *Task) agentFor(from Requester) string {
	rt, _ := from.actor()
	own := rt.cfg.Rules.AgentOf(from.sessionKey())
	return cmp.Or(strings.ToLower(strings.TrimSpace(t.Agent)), own)
}

// equip finds the directory that the sub-agent of a task is to work in, and reads what it is to be
// given. Nothing is looked for, and nothing read, on behalf of what a rule refuses. It returns the
// run of a Key that is known, if the directory of that is gone.
func (t *Task) equip(ctx context.Context, from Requester, x *runExtra) (known RunInfo, err error) {
	rt, _ := from.actor()
	q, err := t.request(*x)
	if err == nil {
		known, err = wouldSpawn(ctx, from, q)
	}
	if errors.Is(err, ErrKeyConflict) && len(t.Attachments) > 0 {
		err = nil // the request does not name the files yet
	}
	if err == nil {
		err = t.checkAttaching(&rt.cfg.Rules)
	}
	if err != nil {
		return RunInfo{}, err
	}
	if x.Runtime, err = rt.cfg.runtimeFor(t, from.sessionKey()); err != nil {
		if known.ID != "" {
			return known, nil // its runtime may be gone
		}
		return RunInfo{}, err
	}
	x.Stream = t.Stream
	if x.Runtime != "" && len(t.Attachments) > 0 {
		return RunInfo{}, &InputError{Field: "Task.Attachments", Reason: "an external runtime " +
			"takes none; name the files in the task instead"}
	}
	if t.Dir != "" {
		p, err := rt.cfg.findPlace(t.agentFor(from), t.Dir)
		switch {
		case err == nil:
			x.Dir = p.Rel
		case known.ID != "":
			return known, nil
		default:
			return RunInfo{}, err
		}
	}
	x.Attached, err = t.attachTo(ctx, from)
	return RunInfo{}, err
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

// execution opens a directory that a session works in, for its AGENTS.md. The caller calls done.
func execution(p workdir.Place) (dir fs.FS, done func()) {
	if p.Base == "" {
		return nil, func() {}
	}
	root, err := workdir.Open(p)
	if err != nil {
		return nil, func() {} // it has gone since it was resolved; the tools will say so
	}
	return root.FS(), func() { _ = root.Close() } // nothing was written
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
	t.place, err = t.rt.cfg.workPlace(t.rt.cfg.Rules.AgentOf(t.Session.Key), dir)
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
