package agentctx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	// syncManifest lists the directories that SyncSkills made, one a line.
	syncManifest = ".skills-synced"
	// syncPrefix begins the names of copies under way.
	syncPrefix = ".skill-"

	// maxManifestBytes is the size over which the manifest is not read: programs in the sandbox may
	// have written it.
	maxManifestBytes = 256 << 10

	// maxSkillDirBytes is the size over which a skill's directory is not
	// copied.
	maxSkillDirBytes = 64 << 20
)

// SyncSkills makes dst hold copies of exactly the skills of a snapshot: what the spec, the host or
// the session excluded is not copied. It is for a directory that a sandbox can see.
//
// Each skill gets a directory of its own. The directory has the name of the one in which the skill
// was found, never the name that the skill gives itself. Of two with one name the second gets "-2".
// A copy is put in place when it is complete. SyncSkills removes the directories that an earlier
// call made and that are not among the skills of the snapshot. It leaves everything else in dst
// alone. It copies regular files only, and passes over symbolic links. A skill of more than 64 MiB
// is not copied. The file .skills-synced of dst lists what SyncSkills made. One of more than 256
// KiB is an error.
//
// SyncSkills returns a report on each skill that it could not copy; an older copy of it stays. The
// error is about dst itself. Calls for one directory must not overlap.
func SyncSkills(dst *os.Root, snapshot SkillSnapshot) ([]FileReport, error) {
	owned, err := readManifest(dst)
	if err != nil {
		return nil, fmt.Errorf("agentctx: sync skills into %q: %w", dst.Name(), err)
	}
	isOwned := make(map[string]bool, len(owned))
	for _, name := range owned {
		isOwned[name] = true
	}
	var problems []FileReport
	var kept []string
	for _, e := range snapshot.Skills {
		name, err := freeName(dst, e, isOwned, kept)
		if err == nil {
			err = replaceSkill(dst, name, e)
		}
		if err != nil {
			f := missingFromError(e.Name, err)
			problems = append(
				problems, FileReport{Name: e.Name, Path: e.Path, Reason: f.Reason, Why: f.Why},
			)
			if isOwned[name] {
				kept = append(kept, name) // an older copy is better than none
			}
			continue
		}
		kept = append(kept, name)
		// The manifest names the copy before a failure with the next skill can hide it.
		if !isOwned[name] {
			isOwned[name] = true
			owned = append(owned, name)
			if err := writeManifest(dst, owned); err != nil {
				return problems, fmt.Errorf("agentctx: sync skills into %q: %w", dst.Name(), err)
			}
		}
	}
	for _, name := range owned {
		if !slices.Contains(kept, name) {
			err = errors.Join(err, dst.RemoveAll(name))
		}
	}
	if err = errors.Join(err, writeManifest(dst, kept)); err != nil {
		return problems, fmt.Errorf("agentctx: sync skills into %q: %w", dst.Name(), err)
	}
	return problems, nil
}

// readManifest returns the names of the directories that SyncSkills made.
func readManifest(dst *os.Root) ([]string, error) {
	text, err := readBounded(dst.FS(), syncManifest, maxManifestBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", syncManifest, err)
	}
	var names []string
	for name := range strings.SplitSeq(text, "\n") {
		if isSkillDirName(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func writeManifest(dst *os.Root, names []string) error {
	return dst.WriteFile(syncManifest, []byte(strings.Join(names, "\n")+"\n"), 0o644)
}

// isSkillDirName reports whether a name may be that of a skill's directory.
func isSkillDirName(name string) bool {
	return validName(name) && !strings.Contains(name, "/") && !strings.HasPrefix(name, ".")
}

// freeName returns the name of the directory for a skill: one that SyncSkills made before or that
// does not exist, and that is not taken by another skill of this call.
func freeName(
	dst *os.Root, e SkillEntry, isOwned map[string]bool, taken []string,
) (string, error) {
	base := path.Base(path.Dir(e.Path))
	if !isSkillDirName(base) {
		return "", newRefusal(ReasonBadName, "its directory is called %q", base)
	}
	for n := 1; n <= maxSkillDirs; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if slices.Contains(taken, name) {
			continue
		}
		if isOwned[name] {
			return name, nil
		}
		if _, err := dst.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
	}
	return "", newRefusal(ReasonBadName, "there are too many directories called %q", base)
}

// replaceSkill copies a skill beside its place and then puts it there.
func replaceSkill(dst *os.Root, name string, e SkillEntry) error {
	fresh := syncPrefix + name
	if err := dst.RemoveAll(fresh); err != nil {
		return err
	}
	err := copySkill(dst, fresh, e)
	if err == nil {
		err = dst.RemoveAll(name)
	}
	if err == nil {
		err = dst.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, dst.RemoveAll(fresh))
	}
	return nil
}

// copySkill copies the regular files of a skill's directory.
func copySkill(dst *os.Root, to string, e SkillEntry) error {
	if e.source == nil {
		return newRefusal(ReasonUnreadable, "it was not found by DiscoverSkills")
	}
	left := int64(maxSkillDirBytes)
	return fs.WalkDir(e.source, e.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, e.Dir), "/")
		if e.Dir == "." {
			rel = strings.TrimPrefix(name, ".")
		}
		target := path.Join(to, rel)
		switch {
		case d.IsDir():
			return dst.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		n, err := copyFile(dst, target, e.source, name, left)
		left -= n
		return err
	})
}

// copyFile copies one regular file of at most the given size.
func copyFile(
	dst *os.Root, to string, src fs.FS, from string, maxBytes int64,
) (n int64, err error) {
	in, info, err := openChecked(src, from, maxBytes)
	if err != nil {
		return 0, err
	}
	defer in.Close() //nolint:errcheck // nothing was written
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := dst.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err = copyText(out, in, info.Size(), maxBytes)
	if err == nil && n > maxBytes {
		err = newRefusal(ReasonTooLarge, "its directory holds more than %d bytes", maxSkillDirBytes)
	}
	return n, err
}
