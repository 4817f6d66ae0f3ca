package target

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// testID returns a run id that begins with head.
func testID(head string) string {
	const zeros = "00000000-0000-4000-8000-000000000000"
	return head + zeros[len(head):]
}

// testRun returns a run that was spawned n minutes after the start.
func testRun(t *testing.T, n int, id, name, label string) spawn.RunInfo {
	t.Helper()
	key, err := session.Parse("agent:main:subagent:" + testID(id))
	require.NoError(t, err)
	return spawn.RunInfo{
		ID: spawn.RunID(testID(id)), Key: key, SessionID: testID(id), Name: name, Label: label,
		Task: "task of " + id, Status: spawn.StatusRunning,
		Created: start.Add(time.Duration(n) * time.Minute),
	}
}

func testRuns(t *testing.T) []spawn.RunInfo {
	t.Helper()
	runs := []spawn.RunInfo{
		testRun(t, 1, "aaaa1", "scout", "Alpha Core"),
		testRun(t, 2, "aaaa2", "", "Alpha Orbit"),
		testRun(t, 3, "beef", "", "x"),
		testRun(t, 4, "cafe", "", "x"),
		testRun(t, 5, "12345678", "", "scout"),
		testRun(t, 6, "d00d", "", ""),
		testRun(t, 7, "feed", "guide", "beta "+strings.Repeat("é", 60)),
	}
	runs[6].FollowUp, runs[6].ID = true, spawn.RunID(testID("face"))
	return runs
}

// earlierRun knows the first run of the last of testRuns, and one that has left.
func earlierRun(runs []spawn.RunInfo) func(spawn.RunRef) (spawn.RunInfo, error) {
	return func(ref spawn.RunRef) (spawn.RunInfo, error) {
		if ref.Run == spawn.RunID(testID("feed")) {
			run := runs[6]
			run.ID, run.Status = ref.Run, spawn.StatusOK
			return run, nil
		}
		return spawn.RunInfo{}, fmt.Errorf("%w: %s", spawn.ErrNotFound, ref)
	}
}

func TestFind(t *testing.T) {
	runs := testRuns(t)
	list, active := List(runs, start.Add(time.Hour), Recent)
	require.Equal(t, 7, active)
	gone := testRun(t, 0, "0dead", "", "")
	search := Search{
		Runs: runs, List: append(Refs(list), gone.Ref()), Earlier: earlierRun(runs),
	}
	const unknown = "it names none of this session's sub-agents"
	for target, want := range map[string]string{ // the beginning of the id, or a FindError
		"1": "face", "#1": "face", "2": "d00d", " 7 ": "aaaa1", "7\u200b": "aaaa1",
		"0": "not a number of the list, which has 8 sub-agents", "9": "not a number of the list",
		"-1": "not a number of the list", "##1": unknown, "01": unknown, "+1": unknown, "1.": unknown,
		"99999999999999999999": unknown,
		"8":                    "that number was run " + testID("0dead") + " of agent:main:subagent:",
		"last":                 "face", "Last": "face", "": "it is empty", "\u2060": "it is empty",
		"all": "it is all of them", "*": "it is all of them",
		// ids and keys
		testID("aaaa1"):                         "aaaa1",
		"agent:main:subagent:" + testID("d00d"): "d00d",
		"agent:main:subagent:" + testID("bad"):  unknown,
		"agent:b:subagent:missing":              unknown,
		testID("feed"):                          "feed", // the earlier run, not its follow-up
		"face":                                  "face", "aaaa": "it may be any of 2", "bee": unknown, "beef": "beef",
		"12345678": "12345678", "1234": "not a number of the list", "BEEF": unknown,
		// names and labels
		"scout": "aaaa1", "SCOUT": "aaaa1", "guide": "face", "gui": "face", "sco": "it may be any of 2",
		"alpha core": "aaaa1", "alpha": "it may be any of 2", "alpha o": "aaaa2", "Alpha  Orbit": "aaaa2",
		"x": "it may be any of 2", "beta": "face", "beta " + strings.Repeat("é", 42) + "…": "face",
		"beta " + strings.Repeat("É", 60): "face", "beta " + strings.Repeat("é", 61): unknown,
		"task of d": "d00d", "task of cafe": unknown,
	} {
		found, err := search.Find(target)
		if err == nil {
			require.Len(t, found, 1)
			require.Equal(t, testID(want), string(found[0].ID), "%q", target)
			continue
		}
		fault, ok := errors.AsType[*FindError](err)
		require.True(t, ok, "%q: %v", target, err)
		require.Contains(t, fault.Reason, want, "%q", target)
		require.Equal(t, strings.HasPrefix(want, "it may be"), len(fault.Candidates) > 0)
		require.NotContains(t, fault.Reason, "\n")
	}
}

// A sub-agent that is called by digits is found by them, unless they are a number of the list or
// the beginning of a run id.
func TestFindCalledByDigits(t *testing.T) {
	runs := append(testRuns(t),
		testRun(t, 8, "e1", "", "2026"), testRun(t, 9, "e2", "31", ""), testRun(t, 10, "e3", "", "#77"),
		testRun(t, 11, "e4", "", "12345678"), testRun(t, 12, "e5", "", "7"),
		testRun(t, 13, "e6", "", "88"), testRun(t, 14, "e7", "", "88"))
	list, _ := List(runs[:7], start.Add(time.Hour), Recent)
	search := Search{Runs: runs, List: Refs(list), Earlier: earlierRun(runs)}
	for target, want := range map[string]string{
		"2026": "e1", "31": "e2", "#77": "e3", "12345678": "12345678", "7": "aaaa1",
	} {
		found, err := search.Find(target)
		require.NoError(t, err, target)
		require.Len(t, found, 1, target)
		require.Equal(t, testID(want), string(found[0].ID), target)
	}
	_, err := search.Find("88")
	fault, ok := errors.AsType[*FindError](err)
	require.True(t, ok, err)
	require.Len(t, fault.Candidates, 2)
	_, err = search.Find("77")
	require.ErrorContains(t, err, "not a number of the list")
}

// An ambiguous target lists what it may mean, with the numbers that the viewer knows, and ten of
// many.
func TestCandidates(t *testing.T) {
	runs := testRuns(t)
	list, _ := List(runs, start, Recent)
	search := Search{Runs: runs, List: Refs(list)}
	_, err := search.Find("x")
	require.EqualError(t, err, `target "x": it may be any of 2: #5, run `+testID("beef")+
		`, "x", running; #4, run `+testID("cafe")+
		`, "x", running: name one by its number or its run id`)
	search.Runs = nil
	for i := range 30 {
		search.Runs = append(search.Runs, testRun(t, i, fmt.Sprintf("%04x", i), "", "many"))
	}
	_, err = search.Find("many")
	fault, ok := errors.AsType[*FindError](err)
	require.True(t, ok)
	require.Len(t, fault.Candidates, 30)
	require.Equal(t, 10, strings.Count(fault.Reason, "run "+testID("")[:2]))
	require.Contains(t, fault.Reason, "; and 20 more")
}

func TestFindAll(t *testing.T) {
	search := Search{Runs: testRuns(t), Many: true}
	for _, target := range []string{"all", "*", "ALL"} {
		found, err := search.Find(target)
		require.NoError(t, err)
		require.Len(t, found, 7)
	}
	_, err := (&Search{}).Find("last")
	require.ErrorContains(t, err, "there are no sub-agents")
	broken := errors.New("broken")
	search.Earlier = func(spawn.RunRef) (spawn.RunInfo, error) { return spawn.RunInfo{}, broken }
	_, err = search.Find(testID("feed"))
	require.ErrorIs(t, err, broken)
	long := strings.Repeat("z", 1<<20)
	_, err = search.Find(long)
	require.Less(t, len(err.Error()), 1000)
}

// The list has the active runs, those whose own sub-agents are at work too, and then those that
// ended of late, each the newest first.
func TestList(t *testing.T) {
	runs := testRuns(t)
	end := func(i int, ended time.Duration, children int) {
		runs[i].Status, runs[i].Ended, runs[i].Children = spawn.StatusOK, start.Add(ended), children
	}
	end(0, time.Hour, 0)
	end(1, time.Minute, 1)
	end(2, 30*time.Minute, 0)
	end(3, 29*time.Minute, 0)
	runs[5].Created = runs[4].Created
	heads := func(list []spawn.RunInfo) (ids []string) {
		for _, r := range list {
			ids = append(ids, strings.TrimRight(string(r.ID)[:8], "0"))
		}
		return ids
	}
	list, active := List(runs, start.Add(time.Hour), Recent)
	require.Equal(t, []string{"face", "d00d", "12345678", "aaaa2", "beef", "aaaa1"}, heads(list))
	require.Equal(t, 4, active)
	list, active = List(runs, start.Add(time.Hour), time.Minute)
	require.Equal(t, []string{"face", "d00d", "12345678", "aaaa2", "aaaa1"}, heads(list))
	require.Equal(t, 4, active)
	list, active = List(nil, start, Recent)
	require.Empty(t, list)
	require.Zero(t, active)
}

func TestWindow(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		0: 30 * time.Minute, -1: 30 * time.Minute, time.Second: time.Minute,
		99 * time.Minute: 99 * time.Minute, 99999 * time.Minute: 24 * time.Hour,
	} {
		require.Equal(t, want, Window(asked), asked)
	}
}

func TestBook(t *testing.T) {
	var b Book
	runs := Refs(testRuns(t))
	ann, model := Viewer{Name: "ann"}, Viewer{}
	_, shown := b.Of(ann, start)
	require.False(t, shown)
	b.Show(ann, runs, start)
	b.Show(model, runs[3:], start.Add(time.Minute))
	runs[0], runs[1] = runs[1], runs[0] // the book has its own
	require.Equal(t, 2, b.Number(ann, runs[0], start.Add(shownFor)))
	require.Zero(t, b.Number(ann, runs[0], start.Add(shownFor+1)))
	require.Equal(t, 1, b.Number(model, runs[3], start.Add(shownFor+1)))
	require.Zero(t, b.Number(model, runs[0], start))

	late := start.Add(10 * time.Minute)
	for i := range 2 * maxLists {
		b.Show(Viewer{Name: fmt.Sprint(i)}, runs, late.Add(time.Duration(i)))
	}
	require.Len(t, b.lists, maxLists)
	_, shown = b.Of(Viewer{Name: "1"}, late)
	require.False(t, shown, "the oldest made room")
	_, shown = b.Of(Viewer{Name: fmt.Sprint(2*maxLists - 1)}, late)
	require.True(t, shown)
	b.Show(ann, make([]spawn.RunRef, 2*maxRuns), late.Add(time.Hour))
	require.Len(t, b.lists, 1, "all others were over")
	all, _ := b.Of(ann, late.Add(time.Hour))
	require.Len(t, all, maxRuns)
}

func TestPace(t *testing.T) {
	var p Pace
	ab, ac := Pair{To: testRun(t, 0, "b", "", "").Key}, Pair{To: testRun(t, 0, "c", "", "").Key}
	const pause = 2 * time.Second
	pass := func(of Pair, id string, after time.Duration) bool {
		_, ok := p.Pass(of, id, pause, start.Add(after))
		return ok
	}
	require.True(t, pass(ab, "1", 0))
	require.True(t, pass(ac, "", 0), "another pair")
	require.False(t, pass(ab, "2", time.Second))
	require.True(t, pass(ab, "1", time.Second), "the same message again")
	require.False(t, pass(ac, "", time.Second), "without an id none is the same")
	require.True(t, pass(ab, "2", pause), "what was refused does not count")
	require.True(t, pass(ab, "3", -time.Hour), "the clock was set back")
	for i := range 2 * maxPairs {
		key := testRun(t, 0, fmt.Sprintf("%06x", i), "", "").Key
		require.True(t, pass(Pair{To: key}, "", time.Minute))
	}
	require.LessOrEqual(t, len(p.last), maxPairs)
}

// What was not taken does not count, and takes nothing from what was.
func TestPaceOfWhatWasNotSent(t *testing.T) {
	var p Pace
	of := Pair{To: testRun(t, 0, "b", "", "").Key}
	const pause = 2 * time.Second
	at := func(id string, after time.Duration) func() {
		unsent, ok := p.Pass(of, id, pause, start.Add(after))
		require.True(t, ok, "%s after %v", id, after)
		return unsent
	}
	refused := func(id string, after time.Duration) {
		unsent, ok := p.Pass(of, id, pause, start.Add(after))
		require.False(t, ok, "%s after %v", id, after)
		unsent()
	}
	at("1", 0)()
	at("2", 0)
	refused("3", time.Second)
	refused("3", time.Second)
	at("2", time.Second)() // the call again, which counts by the one before
	refused("3", time.Second)
	late := at("4", pause)
	late()
	late()
	at("5", pause)
	late()
	refused("6", pause+time.Second)
	at("7", 2*pause)
}
