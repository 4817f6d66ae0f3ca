package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/agent"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

// A request is what the script understands of what it is sent: who it is, what it was asked last,
// and what has come of it.
type request struct {
	child     bool     // it is a sub-agent
	person    string   // how to address the person, if the prompt tells it
	tools     []string // what it may use
	place     string
	topics    []topic
	lookups   []lookup // what its own tools have answered
	asked     []asked  // what it has asked sub-agents
	hasSpoken bool     // it has said something since it was asked
	refused   bool     // it was told before that it may not ask the bookings
}

// A lookup is an answer of one of the bot's tools.
type lookup struct{ topic, text string }

// An asked job is a job that a sub-agent was asked for, with what became of it.
type asked struct {
	job
	accepted bool
	status   string // the status word of the report; empty: none has come
	result   string
}

// called is a tool call that has not been answered yet.
type called struct {
	name string
	args map[string]string
}

func readRequest(req *agent.ModelRequest) *request {
	_, child := req.Prompt.Section(agentctx.SectionSubagent)
	r := &request{child: child, person: personIn(req.Prompt)}
	for _, t := range req.Tools {
		r.tools = append(r.tools, t.Name)
	}
	calls := map[string]called{}
	for _, m := range req.Messages {
		switch {
		case m.Role == session.MessageUser && !m.Internal:
			r.hear(m.Text)
		case m.Role == session.MessageUser:
			r.report(m.Text)
		case m.Role == session.MessageAssistant:
			r.hasSpoken = r.hasSpoken || m.Text != ""
			for _, c := range m.ToolCalls {
				args := map[string]string{}
				_ = json.Unmarshal(c.Args, &args) // our own, see toolCall
				calls[c.ID] = called{c.Name, args}
			}
		case m.Role == session.MessageTool:
			r.answered(calls[m.ToolCallID], m)
		}
	}
	return r
}

// hear begins a new request: what came of an earlier one does not concern it.
func (r *request) hear(text string) {
	if _, task, ok := strings.Cut(text, "[Subagent Task]:"); ok {
		text = task
	}
	r.place, r.topics = placeIn(text), topicsIn(text)
	r.lookups, r.asked, r.hasSpoken = nil, nil, false
}

// answered notes what a tool has answered.
func (r *request) answered(c called, m agent.Message) {
	switch c.name {
	case "timetable":
		r.lookups = append(r.lookups, lookup{"trains", m.Text})
	case "guidebook":
		r.lookups = append(r.lookups, lookup{c.args["topic"], m.Text})
	case "sessions_spawn":
		var answer struct{ Status string }
		_ = json.Unmarshal([]byte(m.Text), &answer) // a text that is not JSON is not accepted
		a := asked{
			job:      job{c.args["agentId"], c.args["label"], c.args["task"]},
			accepted: answer.Status == "accepted",
		}
		r.refused = r.refused || answer.Status == "forbidden"
		r.asked = append(r.asked, a)
	}
}

// announcementField matches the fields of an announcement. The lines of its result begin with a bar
// and do not match.
var announcementField = regexp.MustCompile(`(?m)^(task|status): (.*)$`)

// An announcement is what a model reads from one: the fields are the runtime's words, the lines
// that begin with a bar are the child's.
type announcement struct {
	task   string // its label
	status string // the word: success, error, timeout or unknown
	result []string
}

func readAnnouncement(text string) (a announcement) {
	for _, m := range announcementField.FindAllStringSubmatch(text, -1) {
		if m[1] == "task" {
			a.task = m[2]
		} else {
			a.status, _, _ = strings.Cut(m[2], ",")
		}
	}
	for line := range strings.Lines(text) {
		if said, ok := strings.CutPrefix(line, "| "); ok {
			a.result = append(a.result, strings.TrimSpace(said))
		}
	}
	return a
}

// report notes the end of a sub-agent.
func (r *request) report(text string) {
	said := readAnnouncement(text)
	for i := range r.asked {
		a := &r.asked[i]
		if a.label == said.task && a.accepted && a.status == "" {
			if a.status = said.status; a.status == "success" {
				a.result = strings.Join(said.result, "\n")
			}
			return
		}
	}
}

var addressPattern = regexp.MustCompile(`(?m)^- Call (?:her|him|them): (\S+)\s*$`)

// personIn finds how to address the person. It stands in USER.md, which a sub-agent does not see.
func personIn(p agentctx.Prompt) string {
	if m := addressPattern.FindStringSubmatch(p.String()); m != nil {
		return m[1]
	}
	return ""
}

// topicsIn returns the topics that a text names. It returns all topics if the text names none.
func topicsIn(text string) (list []topic) {
	text = strings.ToLower(text)
	for _, t := range topics {
		for _, w := range t.words {
			if strings.Contains(text, w) {
				list = append(list, t)
				break
			}
		}
	}
	if len(list) == 0 {
		return topics
	}
	return list
}

// placeIn returns the place that a text is about: the first one on file, else the words after the
// last "in" or "to" that begin with a capital letter, else the beginning of the text.
func placeIn(text string) string {
	best, at := "", len(text)
	for name := range almanac {
		if i := strings.Index(text, name); i >= 0 && i < at {
			best, at = name, i
		}
	}
	if best != "" {
		return best
	}
	words := strings.Fields(text)
	for i := len(words) - 2; i >= 0; i-- {
		if w := strings.ToLower(words[i]); w == "in" || w == "to" {
			if name := capitals(words[i+1:]); name != "" {
				return name
			}
		}
	}
	head, _, _ := strings.Cut(strings.Join(words, " "), ",")
	return shorten(strings.TrimRight(head, ".?!"), 40)
}

// capitals returns the words at the beginning that have a capital letter, up to the first
// punctuation.
func capitals(words []string) string {
	var name []string
	for _, w := range words {
		bare := strings.TrimRight(w, ",.;:?!")
		if bare == "" || !unicode.IsUpper([]rune(bare)[0]) {
			break
		}
		if name = append(name, bare); bare != w {
			break
		}
	}
	return strings.Join(name, " ")
}
