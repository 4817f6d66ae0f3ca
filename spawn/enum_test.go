package spawn_test

import (
	"encoding"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// What marshals also unmarshals, in any letter case, and a value without a name does neither.
func TestEnumsAreTextBothWays(t *testing.T) {
	t.Parallel()
	textBothWays(t, "Status", "TIMED_OUT", spawn.StatusTimedOut)
	textBothWays(t, "EventKind", "Turn_Ended", spawn.EventTurnEnded)
	textBothWays(t, "InputClass", "Completion", spawn.InputCompletion)
	textBothWays(t, "DeltaForm", "Raw", spawn.DeltasRaw)
	textBothWays(t, "UsageBy", "Model", spawn.UsageByModel)
	textBothWays(t, "Rest", "Announce", spawn.RestAnnounce)
	for class, word := range map[spawn.InputClass]string{ // the words of the journal
		spawn.InputUser: "user", spawn.InputSteer: "control", spawn.InputTask: "task",
		spawn.InputCompletion: "completion", spawn.InputMilestone: "milestone",
	} {
		require.Equal(t, word, class.String())
	}
}

func textBothWays[T interface {
	~uint8
	fmt.Stringer
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, typ, spelled string, want T,
) {
	t.Helper()
	var v T
	require.NoError(t, P(&v).UnmarshalText([]byte(spelled)))
	require.Equal(t, want, v)
	require.ErrorContains(t, P(&v).UnmarshalText([]byte("nonsense")), "spawn: unknown ")
	require.Equal(t, want, v)

	unknown := T(99)
	require.Equal(t, typ+"(99)", unknown.String())
	_, err := unknown.MarshalText()
	require.ErrorContains(t, err, "spawn: 99 is not a")
	for v = 0; ; v++ {
		text, err := v.MarshalText()
		if err != nil {
			break
		}
		require.Equal(t, v.String(), string(text))
		var back T
		require.NoError(t, P(&back).UnmarshalText(text))
		require.Equal(t, v, back)
	}
	require.Greater(t, v, want)
}
