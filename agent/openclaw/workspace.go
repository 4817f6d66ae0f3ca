package openclaw

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
)

// open opens a directory of the file, nil if it is not there.
func (c *converter) open(dir, path, missing string) fs.FS {
	open := c.o.OpenDir
	if open == nil {
		open = openRoot
	}
	files, err := open(dir)
	switch {
	case err == nil:
		return files
	case errors.Is(err, fs.ErrNotExist):
		c.doubt(path, "%s: %s", missing, dir)
	default:
		c.bad(c.at(path), path, "it cannot be opened: %v", err)
	}
	return nil
}

func openRoot(dir string) (fs.FS, error) {
	switch info, err := os.Stat(dir); { // to open a pipe waits for what writes into it
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: want a directory: it is %s", dir, kindOf(info.Mode()))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return root.FS(), nil
}

// noFiles is a workspace without files.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// workspaces finds the directories of the agents, and opens those that are there.
func (c *converter) workspaces() {
	dirs := make(map[string]string) // that are there
	others := make(map[string]fs.FS)
	for i := range c.res.Agents {
		a := &c.res.Agents[i]
		dir, path := c.workspaceOf(a.ID, i == 0)
		a.Workspace = dir
		files := c.open(dir, path, fmt.Sprintf("agent %s has no files, since its workspace is not there",
			quote(a.ID)))
		if files != nil && filepath.IsAbs(dir) && c.o.OpenDir == nil {
			dirs[a.ID] = dir
		}
		switch {
		case i == 0 && files != nil:
			c.change(func(cfg *agent.Config) { cfg.Workspace = files })
		case i > 0:
			if files == nil { // and not those of the default agent
				files = noFiles{}
			}
			others[a.ID] = files
		}
	}
	if len(others) > 0 {
		c.change(func(cfg *agent.Config) {
			all := maps.Clone(cfg.Prompts.Workspaces)
			if all == nil {
				all = make(map[string]fs.FS, len(others))
			}
			maps.Copy(all, others)
			cfg.Prompts.Workspaces = all
		})
	}
	if len(dirs) == 0 {
		return
	}
	c.change(func(cfg *agent.Config) {
		if cfg.WorkDir == nil {
			cfg.WorkDir = func(id string) string { return dirs[strings.ToLower(id)] }
		}
	})
}

// workspaceOf returns the directory of an agent, and the path in the file that decides it.
func (c *converter) workspaceOf(id string, isDefault bool) (dir, path string) {
	if i, ok := c.found.ids[id]; ok && i < len(c.file.Agents.List) {
		e := &c.file.Agents.List[i]
		path = item("agents.list", i)
		if e.Workspace != nil && strings.TrimSpace(*e.Workspace) != "" {
			dir, path := c.clean(*e.Workspace), path+".workspace"
			c.directory(path, *e.Workspace, dir)
			return dir, path
		}
	}
	const own = "agents.defaults.workspace"
	switch set := c.file.Agents.Defaults.Workspace; {
	case isDefault && set != nil && strings.TrimSpace(*set) != "":
		dir := c.clean(*set)
		c.directory(own, *set, dir)
		return dir, own
	case isDefault:
		return c.paths.workspace, cmp.Or(path, own)
	}
	return filepath.Join(c.paths.state, "workspace-"+id), path
}

// directory looks at how the file names a directory, which is dir.
func (c *converter) directory(path, written, dir string) {
	switch {
	case strings.Contains(written, "\x00"):
		c.doubt(path, "the bytes of it that are 0 are left out, so that it is %s", c.quote(dir))
	case strings.HasPrefix(dir, "~"):
		c.doubt(path, "%s is taken as it stands, since only ~ alone is the home directory",
			c.quote(dir))
	case !filepath.IsAbs(dir):
		c.doubt(path, "%s is looked for in the directory in which the program was started; want one "+
			"from / or ~ on", c.quote(dir))
	}
}

// clean returns the path of a directory of the file.
func (c *converter) clean(dir string) string {
	return filepath.Clean(c.paths.expand(strings.TrimSpace(strings.ReplaceAll(dir, "\x00", ""))))
}
