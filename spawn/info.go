package spawn

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

func stamp(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// infoOf returns what is known of a run. It is called by the owner of the tree.
func infoOf(t *tree.Tree, r *tree.Run) RunInfo {
	s := r.Spec
	info := RunInfo{
		ID: RunID(s.ID), Key: s.Key, Root: t.Root().Key(), Parent: s.Parent, SessionID: s.SessionID, Depth: s.Depth, Role: s.Role,
		Agent: s.Agent, Label: s.Label, Task: string(s.Task), Status: Status(r.State), Error: reasonOf(r),
		Model:    ModelInfo{Requested: s.Asked, Resolved: s.Model},
		Thinking: s.Thinking, Tools: slices.Clone(s.Tools), Sandboxed: s.Sandboxed, Warnings: slices.Clone(s.Warnings),
		Created: stamp(s.Created), Started: stamp(r.Started), Deadline: stamp(r.Deadline), Ended: stamp(r.Ended),
		Turns: int(r.Turns), Children: r.Live(),
	}
	if a := r.Answer; a != nil {
		info.Result = resultOf(a)
		info.Model.Actual = string(a.Model)
	}
	info.Result.Usage = usageOf(r.Usage)
	return info
}

// reasonOf says why a run does not end well.
func reasonOf(r *tree.Run) string {
	if r.Cause == tree.NoCause {
		return ""
	}
	return string(r.Reason)
}

func resultOf(a *tree.Result) Result {
	res := Result{Text: string(a.Text), Model: string(a.Model), Usage: usageOf(a.Usage)}
	if a.JSON != "" {
		res.JSON = json.RawMessage(a.JSON)
	}
	for _, f := range a.Files {
		res.Files = append(res.Files, File{Name: string(f.Name), Path: string(f.Path), MediaType: string(f.MediaType)})
	}
	return res
}

func usageOf(u tree.Usage) session.Usage {
	return session.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Cost: u.Cost,
	}
}

func treeUsage(u session.Usage) tree.Usage {
	return tree.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Cost: u.Cost,
	}
}

func answerOf(o TurnResult) tree.Result {
	a := tree.Result{
		Text: tree.Text(o.Result.Text), JSON: tree.Text(o.Result.JSON),
		Model: tree.Text(o.Result.Model), Usage: treeUsage(o.Result.Usage).Clean(),
		Fallback: tree.Text(o.Fallback), Reply: tree.Text(o.Reply),
	}
	for _, f := range o.Result.Files {
		a.Files = append(a.Files, tree.File{Name: tree.Text(f.Name), Path: tree.Text(f.Path), MediaType: tree.Text(f.MediaType)})
	}
	return a
}

// completionOf returns the end of a run as its requester is told of it.
func completionOf(t *tree.Tree, r *tree.Run, requester session.Key) *Completion {
	c := &Completion{
		Run: infoOf(t, r), Nonce: strconv.FormatUint(r.Nonce, 16), Requester: requester, Siblings: int(r.Siblings),
	}
	if r.Answer != nil {
		c.Fallback = string(r.Answer.Fallback)
	}
	return c
}

func (h *home) input(t *tree.Tree, in tree.Input) Input {
	x := Input{
		Ord: int(in.Ord), Class: InputClass(in.Class), ID: in.ID, Text: string(in.Text), From: in.From, Time: stamp(in.At), Route: in.Route,
	}
	if in.Class == tree.Completion {
		if c := t.Run(in.From); c != nil {
			x.Completion = completionOf(t, c, c.Spec.Parent)
		}
	}
	return x
}

// outgoingOf returns an entry of the outbox as it is handed over.
func outgoingOf(t *tree.Tree, e *tree.Entry) Delivery {
	out := Delivery{
		Key: deliveryKey(t, e), Attempt: int(e.Tries) + 1, Epoch: t.Epoch(), MayRepeat: e.MayRepeat(), To: e.To,
		Blocked: stamp(e.Blocked), Error: string(e.Error),
	}
	if e.Reply {
		out.Reply = &Reply{From: e.Run, Text: string(e.Text), Failed: e.Failed}
		if e.Route != nil {
			out.Reply.Route = *e.Route
		}
		return out
	}
	if r := t.Run(e.Run); r != nil {
		out.Completion = completionOf(t, r, e.To)
	}
	return out
}

// deliveryKey names an entry: the same over retries and restarts, and another one for every entry ever made.
func deliveryKey(t *tree.Tree, e *tree.Entry) string { return keyOfDelivery(t, e.Ord) }

func keyOfDelivery(t *tree.Tree, ord uint32) string {
	var b [64]byte
	return string(strconv.AppendUint(append(append(b[:0], t.Root().Spec.SessionID...), '.'), uint64(ord), 10))
}
