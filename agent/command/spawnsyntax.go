package command

import (
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// parseSpawn reads an agent, a task and the flags, which may stand anywhere behind the agent. What
// is left of the task stays as it was typed. A flag at the very end, without a value, is a part of
// the task.
func parseSpawn(name, rest string) (Command, error) {
	var c Spawn
	c.Agent, rest = cutWord(rest)
	if c.Agent == "" {
		return nil, usageError(name, "agent", "", "it is missing; name the agent that does the task")
	}
	if flagOf(c.Agent).name != "" {
		return nil, usageError(name, "agent", c.Agent, "the agent stands before the flags")
	}
	var task strings.Builder
	for rest != "" {
		gap, word, after := cutGap(rest)
		f := flagOf(word)
		_, value, next := cutGap(after)
		if f.inline {
			value, next = f.value, after
		}
		if f.name == "" || value == "" && next == "" && !f.inline {
			task.WriteString(gap + word)
			rest = after
			continue
		}
		if value == "" || flagOf(value).name != "" {
			return nil, usageError(name, f.name, "", "its value is missing")
		}
		to := &c.Model
		if f.name == "--thinking" {
			to = &c.Thinking
		}
		if *to != "" {
			return nil, usageError(name, f.name, value, "the flag "+f.name+" stands there twice")
		}
		*to, rest = value, next
	}
	if c.Task = strings.TrimSpace(task.String()); text.IsBlank(c.Task) {
		return nil, usageError(name, "task", "", "it is missing")
	}
	return c, nil
}

// A flag is a word of a command that names a setting.
type flag struct {
	name   string // empty: the word is not a flag
	inline bool   // the value stands in the same word
	value  string
}

// flagOf returns the flag that a word is. Phones write a dash for two hyphens.
func flagOf(word string) flag {
	name, value, inline := strings.Cut(word, "=")
	name = strings.ToLower(name)
	for _, dash := range []string{"—", "–"} {
		if rest, found := strings.CutPrefix(name, dash); found {
			name = "--" + rest
		}
	}
	if name != "--model" && name != "--thinking" {
		return flag{}
	}
	return flag{name, inline, value}
}

// cutGap parts the spaces and the word at the begin of a text from the rest.
func cutGap(s string) (gap, word, rest string) {
	begin := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	end := strings.IndexFunc(s[begin:], unicode.IsSpace)
	if end < 0 {
		end = len(s) - begin
	}
	return s[:begin], s[begin : begin+end], s[begin+end:]
}
