package agentctx

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A SkillHost describes the machines on which a session's tools run, for [SnapshotSkills]. A nil
// function finds nothing, so on the zero SkillHost only skills that need nothing are eligible.
type SkillHost struct {
	// OS names the systems of the machines, as in [SkillEntry.OS]. Empty: the system does not
	// matter.
	OS []string
	// HasBin reports whether a program can be called. [Bins.Has] is one.
	HasBin func(name string) bool
	// Env returns a variable of the environment of the tools.
	Env func(name string) string
	// Setting reports whether a setting such as "browser.enabled" is on.
	Setting func(path string) bool
	// Bundled are the keys or names of the bundled skills that may be used. Empty: all of them. It
	// does not concern skills of another origin.
	Bundled []string
	// Config has the settings of single skills, by [SkillEntry.Name], and for the skills of the
	// origins SkillBundled and SkillManaged by [SkillEntry.Key] first. A skill of another origin
	// could write any Key into its SKILL.md, and so have the APIKey of another skill. Without
	// settings under its own name it is not eligible if there are some under that Key. What is
	// Disabled under either is turned off.
	Config map[string]SkillConfig
}

// A SkillConfig is what a configuration says of one skill.
type SkillConfig struct {
	// Disabled turns the skill off.
	Disabled bool
	// APIKey is the value of the variable that the skill's PrimaryEnv names.
	APIKey string
	// Env are further variables for the skill's programs.
	Env map[string]string
}

// Eligible reports whether a skill can work on the host. If it cannot, why says so in words, and
// names everything that the skill requires and the host lacks. It has at most 400 runes.
func (h SkillHost) Eligible(e SkillEntry) (ok bool, why string) {
	why = excerpt(h.lacks(e), maxWhy)
	return why == "", why
}

// lacks returns in words what keeps a skill from working on the host. It returns "" for nothing.
func (h SkillHost) lacks(e SkillEntry) string {
	own := h.configOf(e)
	switch {
	case h.Config[e.Key].Disabled || h.Config[e.Name].Disabled:
		return "turned off by the configuration"
	case h.asksForOthers(e):
		return fmt.Sprintf("its skillKey %q is not its name, and the settings under it are not given "+
			"to a skill of origin %s; those for it stand under %q", e.Key, e.Origin, e.Name)
	case e.Origin == SkillBundled && len(h.Bundled) > 0 &&
		!slices.Contains(h.Bundled, e.Key) && !slices.Contains(h.Bundled, e.Name):
		return "not among the bundled skills that may be used"
	case len(e.OS) > 0 && len(h.OS) > 0 && !slices.ContainsFunc(e.OS, h.hasSystem):
		return fmt.Sprintf("works on %s only", strings.Join(e.OS, ", "))
	case e.Always:
		return ""
	}
	return joinNeeds(h.unmet(e, own))
}

// configOf returns the settings that are given to a skill.
func (h SkillHost) configOf(e SkillEntry) SkillConfig {
	if own, ok := h.Config[e.Key]; ok && e.ownsKey() {
		return own
	}
	return h.Config[e.Name]
}

// asksForOthers reports whether a skill would have settings that it is not given, and none that it
// is given.
func (h SkillHost) asksForOthers(e SkillEntry) bool {
	_, named := h.Config[e.Name]
	_, keyed := h.Config[e.Key]
	return keyed && !named && !e.ownsKey()
}

// ownsKey reports whether the settings under the Key of a skill are meant for it: those under its
// own name are, and what is shipped or installed for all agents says itself what they are called.
func (e *SkillEntry) ownsKey() bool {
	return e.Key == e.Name || e.Origin == SkillBundled || e.Origin == SkillManaged
}

// unmet returns in words everything that a skill requires and the host lacks.
func (h SkillHost) unmet(e SkillEntry, own SkillConfig) (needs []string) {
	for _, bin := range e.Requires.Bins {
		if !h.hasBin(bin) {
			needs = append(needs, fmt.Sprintf("the program %q", bin))
		}
	}
	if bins := e.Requires.AnyBins; len(bins) > 0 && !slices.ContainsFunc(bins, h.hasBin) {
		needs = append(needs, fmt.Sprintf("one of the programs %q", bins))
	}
	for _, name := range e.Requires.Env {
		if h.getenv(name) == "" && own.Env[name] == "" &&
			(name != e.PrimaryEnv || own.APIKey == "") {
			needs = append(needs, fmt.Sprintf("the variable %q", name))
		}
	}
	for _, path := range e.Requires.Config {
		if h.Setting == nil || !h.Setting(path) {
			needs = append(needs, fmt.Sprintf("the setting %q", path))
		}
	}
	return needs
}

// joinNeeds returns a sentence on what a skill needs, or "" for nothing.
func joinNeeds(needs []string) string {
	switch n := len(needs); n {
	case 0:
		return ""
	case 1:
		return "needs " + needs[0]
	default:
		return "needs " + strings.Join(needs[:n-1], ", ") + " and " + needs[n-1]
	}
}

// hasSystem reports whether one of the machines has a system.
func (h SkillHost) hasSystem(system string) bool {
	return slices.ContainsFunc(
		h.OS, func(have string) bool { return systemName(have) == systemName(system) },
	)
}

// systemName returns Go's name of a system.
func systemName(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "win32":
		return "windows"
	case "macos":
		return "darwin"
	default:
		return name
	}
}

func (h SkillHost) hasBin(bin string) bool { return h.HasBin != nil && h.HasBin(bin) }

func (h SkillHost) getenv(name string) string {
	if h.Env == nil {
		return ""
	}
	return h.Env(name)
}

// Environ returns the variables that a program of the skill gets beside its environment, as
// "NAME=value" and ordered by name. It is for the tool that starts the program: Environ sets
// nothing in this process.
//
// It leaves out a variable that the environment has already, a name that changes how programs are
// loaded or found, a value with a NUL, and a name that looks like that of a secret and that the
// skill does not declare.
func (h SkillHost) Environ(e SkillEntry) []string {
	own := h.configOf(e)
	vars := maps.Clone(own.Env)
	if own.APIKey != "" && e.PrimaryEnv != "" && vars[e.PrimaryEnv] == "" {
		if vars == nil {
			vars = map[string]string{}
		}
		vars[e.PrimaryEnv] = own.APIKey
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		declared := name == e.PrimaryEnv || slices.Contains(e.Requires.Env, name)
		if h.getenv(name) != "" || !isWord(name) || name == "" ||
			strings.ContainsRune(vars[name], 0) ||
			dangerousEnv(name) || secretEnv(name) && !declared {
			continue
		}
		list = append(list, name+"="+vars[name])
	}
	return list
}

// dangerousEnv reports whether a variable changes what a program loads or
// runs.
func dangerousEnv(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "GIT_", "BASH_FUNC_", "NPM_CONFIG_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"PATH", "PATHEXT", "IFS", "SHELL", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "PS4",
		"PROMPT_COMMAND",
		"NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "PYTHONPATH", "PYTHONHOME",
		"PYTHONSTARTUP", "RUBYOPT",
		"RUBYLIB", "PERL5OPT", "PERL5LIB", "JAVA_TOOL_OPTIONS", "OPENSSL_CONF", "OPENSSL_MODULES",
		"SSL_CERT_FILE",
		"SSL_CERT_DIR", "GCONV_PATH", "EDITOR", "VISUAL", "PAGER", "BROWSER", "HOME", "TMPDIR",
	}, name)
}

// secretEnv reports whether a variable's name looks like that of a secret.
func secretEnv(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(
		[]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"},
		func(word string) bool { return strings.Contains(name, word) },
	)
}

// ThisHost returns the machine that the process runs on: its system, the programs on its PATH and
// its environment. No setting is on. What HasBin has found is remembered, see [Bins].
func ThisHost() SkillHost {
	bins := &Bins{Path: os.Getenv("PATH")}
	return SkillHost{OS: []string{runtime.GOOS}, HasBin: bins.Has, Env: os.Getenv}
}

// Bins looks programs up in a list of directories such as a PATH, for [SkillHost.HasBin]. It
// remembers what it found until Refresh. The zero Bins finds nothing. It is safe for concurrent
// use.
type Bins struct {
	// Path is the list, with the separator of the operating system.
	Path string

	mu    sync.Mutex
	known map[string]bool
}

// Has reports whether one of the directories has a regular executable file of that name. It never
// finds a name with a path separator.
func (b *Bins) Has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.known[name]
	if !ok {
		found = name != "" && !strings.ContainsAny(name, `/\`) &&
			slices.ContainsFunc(filepath.SplitList(b.Path),
				func(dir string) bool { return executable(filepath.Join(dir, name)) })
		if b.known == nil {
			b.known = map[string]bool{}
		}
		b.known[name] = found
	}
	return found
}

// Refresh forgets what was found. Call it after programs were installed or removed.
func (b *Bins) Refresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = nil
}

// executable reports whether a file can be run.
func executable(name string) bool {
	names := []string{name}
	if runtime.GOOS == "windows" {
		names = []string{name, name + ".exe", name + ".cmd", name + ".bat", name + ".com"}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().IsRegular() &&
			(runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
	})
}
