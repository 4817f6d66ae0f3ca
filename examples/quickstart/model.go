package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A script takes the place of a language model. It reads the request that a model would read, and
// decides by plain rules. It knows only what is in the request: neither its session nor what the
// program around it does next.
type script struct {
	think func(ctx context.Context) error // takes the time that a model would
}

// Generate implements [agent.Model].
func (s script) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	if err := s.think(ctx); err != nil {
		return nil, err
	}
	resp := readRequest(req).answer()
	for i := range resp.ToolCalls {
		resp.ToolCalls[i].ID = fmt.Sprintf("call-%d-%d", len(req.Messages), i+1)
	}
	resp.Model, resp.Usage = req.Model, usageOf(req, resp)
	return resp, nil
}

// usageOf returns an estimate: four characters are a token, at the price of a small model.
func usageOf(req *agent.ModelRequest, resp *agent.ModelResponse) agent.Usage {
	in, out := utf8.RuneCountInString(req.Prompt.String()), utf8.RuneCountInString(resp.Text)
	for _, m := range req.Messages {
		in += utf8.RuneCountInString(m.Text)
	}
	for _, c := range resp.ToolCalls {
		out += len(c.Args)
	}
	u := agent.Usage{Input: int64(in/4 + 1), Output: int64(out/4 + 1)}
	u.Cost = float64(u.Input)*0.3e-6 + float64(u.Output)*1.2e-6
	return u
}

// answer decides whether to spawn sub-agents, to wait for them, to call tools or to report.
func (r *request) answer() *agent.ModelResponse {
	if len(r.asked) == 0 {
		if jobs := r.jobs(); len(jobs) > 0 {
			return &agent.ModelResponse{ToolCalls: spawnCalls(jobs)}
		}
		if len(r.lookups) == 0 {
			if calls := r.lookUps(); len(calls) > 0 {
				return &agent.ModelResponse{ToolCalls: calls}
			}
		} else if check, ok := r.check(); ok {
			return &agent.ModelResponse{ToolCalls: spawnCalls([]job{check})}
		}
	}
	if again := r.cutOff(); len(again) > 0 {
		return &agent.ModelResponse{ToolCalls: spawnCalls(again)}
	}
	if r.waiting() {
		return &agent.ModelResponse{
			Text: r.interim(), ToolCalls: []agent.ToolCall{toolCall("sessions_yield", struct{}{})},
		}
	}
	if r.child {
		return &agent.ModelResponse{Text: r.findings()}
	}
	return &agent.ModelResponse{Text: r.letter()}
}

func (r *request) has(tool string) bool { return slices.Contains(r.tools, tool) }

// A job is what a sub-agent is asked for.
type job struct{ agent, label, task string }

// jobs divides the request among sub-agents. It returns none if the agent should work alone.
func (r *request) jobs() (list []job) {
	switch {
	case !r.has("sessions_spawn"):
		return nil
	case !r.child:
		return r.departments()
	case len(r.topics) > 1:
		for _, t := range r.topics {
			list = append(list, job{placesAgent, t.id, taskOf(r.place, t)})
		}
	}
	return list
}

// departments are the jobs of a whole plan.
func (r *request) departments() (list []job) {
	var town []topic
	for _, t := range r.topics {
		if t.id == "trains" {
			list = append(list, job{routesAgent, "trains", taskOf(r.place, t)})
		} else {
			town = append(town, t)
		}
	}
	if len(town) > 0 {
		list = append(list, job{placesAgent, "town", taskOf(r.place, town...)})
	}
	if !r.refused {
		list = append(
			list,
			job{bookingsAgent, "room", r.place + ": hold a room until tomorrow, free of charge."},
		)
	}
	return list
}

// check returns a job that looks at a price again, if the depth allows another sub-agent.
func (r *request) check() (job, bool) {
	if !r.has("sessions_spawn") || len(r.topics) != 1 || r.topics[0].id != "sleep" {
		return job{}, false
	}
	return job{placesAgent, checkLabel, taskOf(r.place, r.topics[0])}, true
}

const (
	checkLabel  = "check"
	againSuffix = ", again" // ends the label of a job that is asked for a second time
)

// cutOff returns the jobs whose sub-agent was interrupted and that have not been asked for again.
func (r *request) cutOff() (list []job) {
	for _, a := range r.asked {
		label := a.label + againSuffix
		tried := slices.ContainsFunc(r.asked, func(b asked) bool { return b.label == label })
		if a.status == "unknown" && !tried && !strings.HasSuffix(a.label, againSuffix) {
			list = append(list, job{a.agent, label, a.task})
		}
	}
	return list
}

// waiting reports whether a sub-agent has not reported.
func (r *request) waiting() bool {
	return slices.ContainsFunc(r.asked, func(a asked) bool { return a.accepted && a.status == "" })
}

// lookUps are the calls of tools that answer the request.
func (r *request) lookUps() (calls []agent.ToolCall) {
	for _, t := range r.topics {
		switch {
		case t.id == "trains" && r.has("timetable"):
			calls = append(calls, toolCall("timetable", map[string]string{"to": r.place}))
		case t.id != "trains" && r.has("guidebook"):
			calls = append(
				calls, toolCall("guidebook", map[string]string{"place": r.place, "topic": t.id}),
			)
		}
	}
	return calls
}

func spawnCalls(jobs []job) (calls []agent.ToolCall) {
	for _, j := range jobs {
		calls = append(
			calls,
			toolCall(
				"sessions_spawn",
				map[string]string{"agentId": j.agent, "label": j.label, "task": j.task},
			),
		)
	}
	return calls
}

func toolCall(name string, args any) agent.ToolCall {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	return agent.ToolCall{Name: name, Args: data}
}
