package agenttest

import "strings"

// goroutinesLeft returns the goroutines of a stack dump, whose first one is our own, that belong to
// the bubble of that one. The runtime names the bubble in the first line of each goroutine.
func goroutinesLeft(dump string) string {
	all := strings.Split(dump, "\n\n")
	bubble := bubbleName(all[0])
	if bubble == "" {
		return ""
	}
	var left []string
	for _, g := range all[1:] {
		if bubbleName(g) == bubble &&
			!strings.Contains(g, "testing/synctest.testingSynctestTest") &&
			!strings.Contains(g, "internal/synctest.Run(") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// bubbleName returns the name of a goroutine's bubble.
func bubbleName(g string) string {
	head, _, _ := strings.Cut(g, "\n")
	_, name, ok := strings.Cut(head, "synctest bubble ")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(strings.TrimRight(name, "]: "), ",")
	return name
}
