package openclaw

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
)

// Options say how a file is read. The zero Options read it as OpenClaw does on this machine.
type Options struct {
	// Strict makes a mistake of each member that is not known, also in the objects that OpenClaw
	// and its plugins own. What is known and not taken is in [Result].Untaken all the same.
	Strict bool
	// Env returns a variable of the environment, which texts of the file name as ${NAME}. It is
	// asked for OPENCLAW_HOME, OPENCLAW_STATE_DIR, OPENCLAW_CONFIG_PATH and OPENCLAW_PROFILE, too.
	// Nil: os.LookupEnv.
	Env func(name string) (value string, ok bool)
	// Home is the directory that ~ stands for. Empty: OPENCLAW_HOME, else that of the user.
	Home string
	// StateDir is where OpenClaw keeps its state. Empty: OPENCLAW_STATE_DIR, else .openclaw in the
	// home directory.
	StateDir string
	// OpenDir opens the directory of a workspace or of skills. An error for which
	// errors.Is(err, fs.ErrNotExist) says that there is none, which is not a mistake. What it opens
	// need not be on a disk, so that WorkDir of the Config is left as it is. Nil: os.OpenRoot, so
	// that no link leads outside.
	OpenDir func(dir string) (fs.FS, error)
	// Isolated are the ids of agents that have only their own credentials, not those of main.
	Isolated []string
}

// A Result is what a file says.
type Result struct {
	// Config has what the file sets, and zeros for everything else, such as the Runner. Most
	// programs hand their own Config to Apply in place of taking this one.
	Config agent.Config
	// Agents are the agents, the default agent first. There is always at least one.
	Agents []Agent
	// Doubts are what can be meant and most often is not, and what OpenClaw takes otherwise.
	Doubts []Note
	// Untaken are the parts of the file that have no effect here, in their order.
	Untaken []Note
	// Migrated are the members of earlier versions that were read as today's.
	Migrated []Note

	changes []func(*agent.Config)
	parsed  parsed
	from    *source // nil: a text
}

// An Agent says where what an agent has is, whether it is there or not.
type Agent struct {
	ID        string
	Name      string // for people; may be empty
	Workspace string // absolute, if the home directory is
	AgentDir  string // the same; auth-profiles.json is in it
}

// Apply sets what the file says in c, and leaves all else as it is: the Runner, the Store, the
// Tools, Reply and Deliver are the program's. Lists and maps of the Rules are replaced as a whole;
// in Prices, Aliases, Workspaces and the channels of Threads the entries of the file come to those
// of c. WorkDir, Models.Credentials and Prompts.Skills are set if c has none.
func (r *Result) Apply(c *agent.Config) {
	for _, change := range r.changes {
		change(c)
	}
}

// Load reads the file of a name. An empty name is OPENCLAW_CONFIG_PATH, else openclaw.json in the
// state directory. What is in its place and is not a file is [ErrNotRegular], and not waited for.
// The error may also be that of the file system, the cause of ctx, or [FieldErrors].
func Load(ctx context.Context, name string, o Options) (*Result, error) {
	paths, err := o.paths()
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = paths.config
	}
	return load(ctx, source{name: name, path: paths.expand(name)}, o)
}

// LoadFS is Load for a file of fsys. The directories that it names are those of this machine.
func LoadFS(ctx context.Context, fsys fs.FS, name string, o Options) (*Result, error) {
	return load(ctx, source{name: name, path: name, fsys: fsys}, o)
}

// load reads the file of a source.
func load(ctx context.Context, from source, o Options) (*Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	data, _, err := from.read()
	if err != nil {
		return nil, err
	}
	r, err := parseFile(from.name, data, o)
	if err != nil {
		return nil, err
	}
	r.from = &from
	return r, nil
}

// A source is a file that can be read again.
type source struct {
	name string // as it was given
	path string // where it is
	fsys fs.FS  // nil: on this machine
}

// stat describes the file.
func (s *source) stat() (fs.FileInfo, error) {
	var info fs.FileInfo
	var err error
	if s.fsys == nil {
		info, err = os.Stat(s.path)
	} else {
		info, err = fs.Stat(s.fsys, s.path)
	}
	if err != nil {
		return nil, fmt.Errorf("openclaw: %w", err)
	}
	return info, nil
}

// open opens the file. On this machine it does not wait for what writes into it, as for a pipe.
func (s *source) open() (fs.File, error) {
	if s.fsys != nil {
		return s.fsys.Open(s.path)
	}
	return openFile(s.path)
}

// checkRegular returns an error that is [ErrNotRegular] for what is not a file of bytes.
func checkRegular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%w: %s is %s", ErrNotRegular, name, kindOf(info.Mode()))
}

// kindOf says what is in the place of a file.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// read returns what is in the file, and describes the file as it was before that.
func (s *source) read() ([]byte, fs.FileInfo, error) {
	info, err := s.stat()
	if err != nil {
		return nil, nil, err
	}
	if err := checkRegular(s.name, info); err != nil {
		return nil, nil, err
	}
	file, err := s.open()
	if err != nil {
		return nil, nil, fmt.Errorf("openclaw: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read from
	if info, err = file.Stat(); err != nil {
		return nil, nil, fmt.Errorf("openclaw: %s: %w", s.name, err)
	}
	if err := checkRegular(s.name, info); err != nil { // another one has taken its place
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("openclaw: %s: %w", s.name, err)
	}
	return data, info, nil
}

// Parse is Load for the text of a file. The error is a [FieldErrors].
func Parse(data []byte, o Options) (*Result, error) { return parseFile("", data, o) }

// parseFile reads a text, and says name of what is wrong with it.
func parseFile(name string, data []byte, o Options) (*Result, error) {
	paths, err := o.paths()
	if err != nil {
		return nil, err
	}
	root, err := decode(data)
	if err != nil {
		if e, ok := errors.AsType[*FieldError](err); ok {
			e.File = name
			return nil, FieldErrors{e}
		}
		return nil, err
	}
	w := walker{name: name, strict: o.Strict}
	w.env = o.lookup(root)
	if root.kind != kindObject {
		w.bad(root, "", "it is %v, want an object", root)
		return nil, w.errs
	}
	migrated := w.migrate(root)
	root.seal()
	c := converter{
		walker: &w, root: root, o: o, paths: paths, found: newFinder(root, nil),
		res: &Result{Migrated: migrated},
	}
	c.document(root)
	for _, e := range w.errs {
		e.Path = shown(e.Path)
	}
	left := slices.Clone(w.untaken) // with paths as they are
	for _, list := range [][]Note{w.untaken, w.doubts, migrated} {
		for i := range list {
			list[i].Path = shown(list[i].Path)
		}
	}
	if len(w.errs) > 0 {
		slices.SortStableFunc(w.errs, func(a, b *FieldError) int {
			return comparePlaces(a.Line, a.Column, b.Line, b.Column)
		})
		return nil, w.errs
	}
	for _, list := range []*[]Note{&w.untaken, &w.doubts} {
		slices.SortStableFunc(*list, func(a, b Note) int {
			return comparePlaces(a.Line, a.Column, b.Line, b.Column)
		})
	}
	c.res.Untaken, c.res.Doubts = w.untaken, w.doubts
	c.res.parsed = parsed{
		name: name, o: o, paths: paths, root: root, doc: c.file, ids: c.ids, untaken: left,
		sum: sha256.Sum256(data), env: w.env, aliases: c.aliases,
	}
	return c.res, nil
}

// A parsed is a file as it was read, without mistakes. It is not changed any more.
type parsed struct {
	name    string
	sum     [sha256.Size]byte
	o       Options
	paths   places
	env     func(name string) (string, bool)
	root    *value
	doc     document
	ids     []string          // as those of a converter
	aliases map[string]string // the same
	untaken []Note            // with the paths of the file, which may have credentials
}

func comparePlaces(line, column, otherLine, otherColumn int) int {
	if line != otherLine {
		return line - otherLine
	}
	return column - otherColumn
}

// lookup returns the variables that texts may name: those of the environment, and below them those
// of the member env. One that is set to nothing is looked for in the next place.
func (o *Options) lookup(root *value) func(name string) (string, bool) {
	own := root.get("env")
	return func(name string) (string, bool) {
		s, isSet := o.variable(name)
		if s != "" && isSet {
			return s, true
		}
		for _, at := range []*value{own.get("vars"), own} {
			if v := at.get(name); v != nil && v.kind == kindString {
				return v.str, true
			}
		}
		return "", isSet
	}
}

func (o *Options) variable(name string) (string, bool) {
	if o.Env != nil {
		return o.Env(name)
	}
	return os.LookupEnv(name)
}

// A places has the directories of OpenClaw.
type places struct {
	home, state, config, workspace string
}

// paths returns the directories that hold where a file does not say otherwise.
func (o *Options) paths() (p places, err error) {
	p.home = o.Home
	if p.home == "" {
		p.home, _ = o.variable("OPENCLAW_HOME")
	}
	if p.home == "" {
		if p.home, err = os.UserHomeDir(); err != nil {
			return p, fmt.Errorf("openclaw: Options.Home: %w", err)
		}
	}
	p.state = o.StateDir
	if p.state == "" {
		p.state, _ = o.variable("OPENCLAW_STATE_DIR")
	}
	if p.state == "" {
		p.state = "~/.openclaw"
	}
	p.state = p.expand(p.state)
	if p.config, _ = o.variable("OPENCLAW_CONFIG_PATH"); p.config == "" {
		p.config = filepath.Join(p.state, "openclaw.json")
	}
	p.workspace = filepath.Join(p.home, ".openclaw", "workspace")
	profile, _ := o.variable("OPENCLAW_PROFILE")
	if profile = strings.TrimSpace(profile); profile != "" && !strings.EqualFold(profile, "default") {
		p.workspace += "-" + profile
	}
	return p, nil
}

// expand returns a path with the home directory in place of ~.
func (p *places) expand(name string) string {
	if rest, ok := strings.CutPrefix(name, "~"); ok &&
		(rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return filepath.Join(p.home, rest)
	}
	return name
}
