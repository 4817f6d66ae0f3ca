package spawn

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Result is what a turn or a run produced. The zero Result is an empty one.
type Result struct {
	// Text is the final answer, byte for byte as the Runner returned it.
	Text string `json:"text,omitempty"`
	// JSON is a typed result, where one was asked for.
	JSON json.RawMessage `json:"json,omitempty"`
	// Files are what was made, by reference.
	Files []File `json:"files,omitempty"`
	// Usage is what was consumed: in the Result that a Runner returns by that turn, in the Result
	// of a RunInfo by all turns of the run whose end is recorded. What a turn had spent that a
	// crash interrupted, or that was given up, is not in it; budgets are charged for all that such
	// a turn had reserved.
	Usage session.Usage `json:"usage,omitzero"`
	// Model is the model that the Runner called; empty if the Runner does not say.
	Model string `json:"model,omitempty"`
}

// A ModelUsage is what was used of one model. An empty Model stands for the one that policy
// resolved.
type ModelUsage struct {
	Model string
	Usage session.Usage
}

// OtherModels is the Model of what was used of models beyond a bound: 32 in a turn, and 256 that an
// agent has used in a tree. See [UsageReport].
const OtherModels = tree.OtherModels

// maxTurnModels is how many models of one turn are told apart.
const maxTurnModels = 32

// addModel adds what was used of a model. A name that is not one counts as none.
func addModel(list []ModelUsage, model string, u session.Usage) []ModelUsage {
	if !text.IsLine(model, text.MaxName) {
		model = ""
	}
	find := func() int {
		return slices.IndexFunc(list, func(m ModelUsage) bool { return m.Model == model })
	}
	i := find()
	if i < 0 && len(list) >= maxTurnModels {
		model = OtherModels
		i = find()
	}
	if i < 0 {
		return append(list, ModelUsage{model, u})
	}
	list[i].Usage = list[i].Usage.Add(u)
	return list
}

// attribute records which models a turn has used, if a reader of the answer could not tell: if they
// are several, or not the Model of the answer, or not the one that is on record for the run.
func (t *TurnInput) attribute(a *tree.Result, models []ModelUsage) {
	top := t.Run.ID == ""
	if len(models) == 0 && a.Model == "" && top && a.Usage != (tree.Usage{}) {
		models = []ModelUsage{{Usage: usageOf(a.Usage)}}
	}
	if len(models) == 0 {
		return
	}
	onRecord := t.Run.Model.Resolved // empty for a top-level session
	resolved := onRecord
	if top {
		resolved = t.shell.sup.cfg.Rules.SessionModel(t.Session.Key, t.shell.sup.cfg.Model)
	}
	var list []ModelUsage
	var sum session.Usage
	for _, m := range models {
		u := usageOf(treeUsage(m.Usage).Clean())
		list = addModel(list, cmp.Or(m.Model, resolved), u)
		sum = sum.Add(u)
	}
	a.Usage = treeUsage(sum)
	if len(list) == 1 && list[0].Model == cmp.Or(string(a.Model), onRecord) {
		return
	}
	for _, m := range list {
		a.ByModel = append(a.ByModel, tree.ModelUsage{
			Model: tree.Text(m.Model), Usage: treeUsage(m.Usage),
		})
	}
}

// A File is a reference to something that a run made.
type File struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}
