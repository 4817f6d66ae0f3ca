package tree

import "fmt"

// An EffectKind says what an Effect wants from the world.
type EffectKind uint8

const (
	AskSlot    EffectKind = iota + 1 // the run wants a turn: ask the lane
	FreeSlot                         // the run's slot is free
	StartTurn                        // start the turn Ord of the run
	CancelTurn                       // cancel the turn Ord of the run
	Deliver                          // hand over the entry Ord of the outbox
	Archive                          // put the run's transcript away, then tell the tree
)

var effectNames = [...]string{"none", "ask_slot", "free_slot", "start_turn", "cancel_turn", "deliver", "archive"}

func (k EffectKind) String() string {
	if int(k) < len(effectNames) {
		return effectNames[k]
	}
	return fmt.Sprintf("EffectKind(%d)", k)
}

// An Effect is something that the owner does once the facts it follows from are durable.
type Effect struct {
	Kind EffectKind
	Run  *Run
	Ord  uint32
}
