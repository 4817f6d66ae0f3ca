package tree

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/enum"
)

// A State says where a run stands. The numbers are those of the public Status and of the journal,
// so they never change.
type State uint8

const (
	Queued State = iota + 1
	Running
	Waiting
	Stopping
	OK
	Failed
	TimedOut
	Cancelled
	Interrupted
	Incomplete
	states // one more than the number of states
)

var stateNames = [states]string{
	"none", "queued", "running", "waiting", "stopping",
	"ok", "failed", "timed_out", "cancelled", "interrupted", "incomplete",
}

func (s State) String() string { return enum.String(stateNames[:], "State", s) }

// Terminal reports whether a run in this state has ended.
func (s State) Terminal() bool { return s >= OK && s < states }

// transitions is the transition table: transitions[from] holds the states that may follow.
//
// A run ends well only from Waiting. Every other end goes by way of Stopping: the cause is recorded
// first, and the terminal state follows when the turn and the descendants are back. From Running a
// run is queued again only if a shutdown has ended its first turn before that did anything.
var transitions = [states]stateSet{
	0:        setOf(Queued),
	Queued:   setOf(Running, Stopping),
	Running:  setOf(Waiting, Stopping, Queued),
	Waiting:  setOf(Running, Stopping, OK),
	Stopping: setOf(Failed, TimedOut, Cancelled, Interrupted, Incomplete),
}

// A stateSet is a set of states, one bit for each.
type stateSet uint16

func setOf(list ...State) (s stateSet) {
	for _, x := range list {
		s |= 1 << x
	}
	return s
}

func (s stateSet) has(x State) bool { return s&(1<<x) != 0 }

// A TransitionError is a step that the transition table does not allow.
type TransitionError struct {
	Run      string
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("spawn: run %q cannot go from %v to %v", e.Run, e.From, e.To)
}

// Diagram returns the transition table as a Mermaid state diagram. A test compares the diagram in
// the package documentation of spawn with it.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for from := range states {
		for to := Queued; to < states; to++ {
			if !transitions[from].has(to) {
				continue
			}
			name := from.String()
			if from == 0 {
				name = "[*]"
			}
			fmt.Fprintf(&b, "    %s --> %s\n", name, to)
		}
	}
	for s := range states {
		if !s.Terminal() {
			continue
		}
		fmt.Fprintf(&b, "    %s --> [*]\n", s)
	}
	return b.String()
}

// A Cause says why a run ends otherwise than by itself. The first cause of a run wins. The
// journal holds the numbers, which never change.
type Cause uint8

const (
	NoCause Cause = iota
	RunnerFailed
	Timeout
	Stopped
	Crashed
	LimitReached
	AnswerRefused // of version 2
	causes
)

var causeNames = [causes]string{
	"none", "runner_failed", "timeout", "stopped", "crashed", "limit_reached",
	"answer_refused",
}

func (c Cause) String() string { return enum.String(causeNames[:], "Cause", c) }

// endState returns the terminal state that a cause leads to; OK for NoCause.
func (c Cause) endState() State {
	switch c {
	case RunnerFailed, AnswerRefused:
		return Failed
	case Timeout:
		return TimedOut
	case Stopped:
		return Cancelled
	case Crashed:
		return Interrupted
	case LimitReached:
		return Incomplete
	default: // the run ended by itself
	}
	return OK
}

// A Class says what kind of input an input is.
type Class uint8

const (
	User       Class = iota + 1 // a message of a person or of the caller; also a follow-up to a run
	Control                     // a steer of a run that is alive
	Task                        // what a run was asked to do
	Completion                  // the end of a child
	Milestone                   // what a child has reached; it starts no turn
	Event                       // what the program has a top-level session know, see [Post].Event
	classes
)

// ClassNames are the names of the classes, indexed by class. They must not be changed.
var ClassNames = [classes]string{"none", "user", "control", "task", "completion", "milestone", "event"}

// presented has the classes in the order in which a turn gets its inputs.
var presented = [...]Class{User, Event, Control, Task, Milestone, Completion}

func (c Class) String() string { return enum.String(ClassNames[:], "Class", c) }
