package policy

import "strings"

// canonicalTool returns the name by which rules know a tool: without outer space, in lower case,
// bash as exec and apply-patch as apply_patch. It serves for the entries of lists too. It does not
// allocate for a name that is canonical.
func canonicalTool(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "bash":
		return "exec"
	case "apply-patch":
		return toolPatch
	}
	return name
}

// glob reports whether name matches pattern, in which each * stands for any run of characters and
// everything else for itself. The time it takes grows with the sum of the lengths: the leftmost
// match of each piece is always as good as any other.
func glob(pattern, name string) bool {
	piece, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, piece)
	if !ok {
		return false
	}
	for {
		piece, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, piece)
		}
		i := strings.Index(name, piece)
		if i < 0 {
			return false
		}
		name = name[i+len(piece):]
	}
}

// matchTool returns the first entry of a list that a canonical name matches. A blank entry matches
// nothing.
func (r *Rules) matchTool(list []string, name string) (entry string, ok bool) {
	for _, entry = range list {
		if r.entryMatches(canonicalTool(entry), name) {
			return entry, true
		}
	}
	return "", false
}

// entryMatches reports whether a canonical entry stands for a canonical name.
func (r *Rules) entryMatches(entry, name string) bool {
	switch {
	case entry == "":
		return false
	case !isGroup(entry):
		return glob(entry, name)
	}
	for _, member := range r.group(entry) {
		if glob(canonicalTool(member), name) {
			return true
		}
	}
	return false
}
