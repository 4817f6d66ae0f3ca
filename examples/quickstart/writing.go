package main

import (
	"slices"
	"strings"
)

// taskOf returns a task that stands alone: a sub-agent sees nothing of the conversation.
func taskOf(place string, about ...topic) string {
	titles := make([]string, len(about))
	for i, t := range about {
		titles[i] = t.title
	}
	return place + ", a weekend for two: " + strings.Join(titles, "; ") + "."
}

// interim is what the person hears before there is an answer, once.
func (r *request) interim() string {
	if r.child || r.hasSpoken {
		return ""
	}
	return "Let me see what we have on " + r.subject() + r.name() + ". Back in a moment."
}

// letter is the answer to the person.
func (r *request) letter() string {
	found := r.findings()
	if !slices.ContainsFunc(
		strings.Split(found, "\n"),
		func(l string) bool { return !strings.Contains(l, nothingOnFile) },
	) {
		return "There is " + nothingOnFile + r.subject() + r.name() + ". I can tell you about " + strings.Join(
			knownPlaces(), ", ",
		) + "."
	}
	text := r.place + r.name() + ". This is what I would do:\n\n" + found
	if r.refused {
		text += "\n\nNothing is booked or held: that is not this desk's to do."
	}
	return text
}

// subject is the place, in quotes if it may be none.
func (r *request) subject() string {
	if almanac[r.place] == nil {
		return "“" + r.place + "”"
	}
	return r.place
}

// name is how the person is addressed in the middle of a sentence, if the prompt tells that.
func (r *request) name() string {
	if r.person == "" {
		return ""
	}
	return ", " + r.person
}

// findings are what it has looked up itself and what has come back, a line for each topic.
func (r *request) findings() string {
	var lines []string
	for _, l := range r.lookups {
		lines = append(lines, headOf(l.topic)+l.text)
	}
	for _, a := range r.asked {
		switch {
		case a.label == checkLabel && a.result != "" && len(lines) > 0:
			lines[0] += " (checked)"
		case a.result != "":
			lines = append(lines, strings.Split(a.result, "\n")...)
		case a.accepted && (a.status != "unknown" || strings.HasSuffix(a.label, againSuffix)):
			lines = append(lines, "Not known: "+a.label+", "+a.status+".")
		}
	}
	if len(lines) == 0 {
		return "I have nothing that would help with that."
	}
	slices.SortStableFunc(lines, func(a, b string) int { return rank(a) - rank(b) })
	return strings.Join(lines, "\n")
}

// headOf begins the line of a topic.
func headOf(id string) string { return strings.ToUpper(id[:1]) + id[1:] + ": " }

// rank is the place of a line in a plan, by its head.
func rank(line string) int {
	i := slices.IndexFunc(
		topics, func(t topic) bool { return strings.HasPrefix(line, headOf(t.id)) },
	)
	if i < 0 {
		return len(topics)
	}
	return i
}
