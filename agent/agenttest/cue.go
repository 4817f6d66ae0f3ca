package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A Cue is what [TestRunner] asks of the agent behind a Runner: of its model, or of the foreign
// agent that it drives. It stands in the text of a message, as [Cues] finds it.
type Cue struct {
	ID    string        `json:"id"` // the agent recites it
	Do    CueAct        `json:"do"`
	Say   []string      `json:"say,omitempty"`   // the pieces of its answer, in order
	Pause time.Duration `json:"pause,omitempty"` // before the answer, in nanoseconds
	Usage agent.Usage   `json:"usage,omitzero"`  // what it consumes
}

// A CueAct is a word that says what an agent does.
type CueAct string

// What an agent does. [Play] does it.
const (
	CueAnswer CueAct = "answer" // it answers with Say, after the Pause
	CueRecite CueAct = "recite" // it answers with the IDs of all cues that it was told, in order
	CueWork   CueAct = "work"   // it says Say, and works until it is cancelled
	CueFail   CueAct = "fail"   // it answers with an error
	CuePanic  CueAct = "panic"  // it panics; an agent that is a process dies
	CueExit   CueAct = "exit"   // it ends its goroutine; an agent that is a process exits with 0
)

// cueMark stands before the JSON of a Cue.
const cueMark = "agenttest-cue "

// String returns the cue as it stands in a message.
func (c Cue) String() string {
	data, err := json.Marshal(c)
	if err != nil { // a cost that is not a number
		return cueMark + err.Error()
	}
	return cueMark + string(data)
}

// Cues returns the cues in texts, in their order. What else the texts say is passed over.
func Cues(texts ...string) (list []Cue) {
	for _, text := range texts {
		for {
			_, rest, found := strings.Cut(text, cueMark)
			if !found {
				break
			}
			var c Cue
			if json.NewDecoder(strings.NewReader(rest)).Decode(&c) == nil {
				list = append(list, c)
			}
			text = rest
		}
	}
	return list
}

// errCue is what an agent answers that is to fail.
var errCue = errors.New("agenttest: the agent fails, as it was asked to")

// Play does as the last of the cues says that an agent was told so far, and returns its answer. It
// calls say with each piece of the answer as it comes; say may be nil. Without cues the answer is
// empty. The error is that of a [CueFail], or the cause of ctx beside what was said until then.
func Play(ctx context.Context, cues []Cue, say func(piece string)) (answer string, err error) {
	if len(cues) == 0 {
		return "", nil
	}
	c := cues[len(cues)-1]
	if err := sleep(ctx, c.Pause); err != nil {
		return "", err
	}
	pieces := c.Say
	if c.Do == CueRecite {
		pieces = nil
		for i, told := range cues {
			if i > 0 {
				pieces = append(pieces, " ")
			}
			pieces = append(pieces, told.ID)
		}
	}
	for _, piece := range pieces {
		if say != nil {
			say(piece)
		}
	}
	answer = strings.Join(pieces, "")
	switch c.Do {
	case CueAnswer, CueRecite:
		return answer, nil
	case CueWork:
		<-ctx.Done()
		return answer, context.Cause(ctx)
	case CueFail:
		return answer, errCue
	case CuePanic:
		panic("agenttest: the agent panics, as it was asked to")
	case CueExit:
		runtime.Goexit()
	}
	return "", fmt.Errorf("agenttest: %q is not what an agent does", c.Do)
}
