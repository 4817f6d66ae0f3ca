//go:build unix

package enginetest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A toldReply is a line of the witness that is a reply.
type toldReply struct {
	chat, key string
	epoch     uint64
	said      []string // "asked 1", "done 1"
}

func parseReply(line string) (r toldReply, ok bool) {
	part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(part) != 5 {
		return r, false
	}
	epoch, err := strconv.ParseUint(part[3], 10, 64)
	return toldReply{part[1], part[2], epoch, strings.Split(part[4], ";")}, err == nil
}

// A toldChat is what the replies of one chat say.
type toldChat struct {
	order []string                   // by their first arrivals
	keys  map[string]map[string]bool // of the deliveries of each
}

// all returns what the witness has of each chat, and how often each run began.
func (f *Fleet) all() (chats map[string]*toldChat, began map[string]int) {
	text, err := os.ReadFile(f.witness)
	must(f.t, "read the witness", err)
	chats, began = map[string]*toldChat{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		if run, ok := strings.CutPrefix(line, "began "); ok {
			began[run]++
			continue
		}
		r, ok := parseReply(line)
		if !ok {
			f.t.Fatalf("the witness has the line %q", line)
		}
		c := chats[r.chat]
		if c == nil {
			c = &toldChat{keys: map[string]map[string]bool{}}
			chats[r.chat] = c
		}
		for _, said := range r.said {
			if c.keys[said] == nil {
				c.keys[said] = map[string]bool{}
				c.order = append(c.order, said)
			}
			c.keys[said][r.key] = true
		}
	}
	return chats, began
}

// VerifyEpochs fails the test if a reply of a former owner does not carry an older epoch than those
// that came before it of the next one.
func (f *Fleet) VerifyEpochs() {
	f.t.Helper()
	text, err := os.ReadFile(f.witness)
	must(f.t, "read the witness", err)
	late := 0
	last, keys := map[string]uint64{}, map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		r, ok := parseReply(line)
		if !ok {
			continue
		}
		if r.epoch < last[r.chat] {
			late++
			check(f.t, keys[r.key] != 0, "%s came late, and not by a later owner", line)
		}
		last[r.chat] = max(last[r.chat], r.epoch)
		keys[r.key] = r.epoch
	}
	f.t.Logf("%d replies came from a former owner", late)
}

// waitForAll waits until the witness has everything that was asked. It fails the test if nothing
// comes any more, and says what is missing and how the processes see it.
func (f *Fleet) waitForAll(asked []int) {
	f.t.Helper()
	all, last, since := 0, -1, time.Now()
	for _, n := range asked {
		all += 2 * n
	}
	for ; ; pause(100 * time.Millisecond) {
		chats, began := f.all()
		said := 0
		for _, c := range chats {
			said += len(c.order)
		}
		if said >= all {
			return
		}
		if said > last {
			last, since = said, time.Now()
		}
		if time.Since(since) > stillness {
			f.t.Logf("%d of %d were said, %d runs began", said, all, len(began))
			f.logMissing(asked, chats)
			f.t.Fatal("nothing is said any more")
		}
	}
}

// judge opens a Runtime that looks at what the fleet has left.
func (f *Fleet) judge() *agent.Runtime {
	f.t.Helper()
	judge, err := agent.Open(f.t.Context(), agent.Config{
		Store:  f.e.open(f.t, f.at, "judge", f.e.Lease),
		Runner: agent.RunnerFunc((&witnessed{}).run),
	})
	must(f.t, "open a Runtime", err)
	return judge
}

// logMissing logs what the witness does not have of each chat, and the runs that have not ended.
func (f *Fleet) logMissing(asked []int, chats map[string]*toldChat) {
	judge := f.judge()
	for chat, n := range asked {
		key := ChatKey(chat)
		var missing []string
		for i := range 2 * n {
			said := fmt.Sprint([]string{"asked ", "done "}[i%2], i/2+1)
			if c := chats[key.String()]; c == nil || c.keys[said] == nil {
				missing = append(missing, said)
			}
		}
		f.t.Logf("%s was asked %d, and is missing %d: %q", key, n, len(missing),
			missing[:min(len(missing), 20)])
		if c := chats[key.String()]; c != nil {
			isWanted := func(s string) bool {
				return strings.HasPrefix(s, "asked ") || strings.HasPrefix(s, "done ")
			}
			f.t.Logf("it was told other things: %q", slices.DeleteFunc(c.order, isWanted))
		}
		runs, err := judge.Session(key).Runs(f.t.Context())
		f.t.Log(len(runs), err)
		for _, r := range runs {
			if !r.Status.Terminal() {
				f.t.Logf("%s is %v", r.Label, r.Status)
			}
		}
	}
	blocked, err := judge.Blocked(f.t.Context())
	f.t.Log("blocked:", blocked, err)
}

// verify fails the test unless the bot has kept its promises about so many questions in each chat.
func (f *Fleet) verify(asked []int) {
	f.t.Helper()
	chats, began := f.all()
	for run, n := range began {
		check(f.t, n == 1, "run %s began %d times", run, n)
	}
	judge := f.judge()
	for chat, n := range asked {
		key := ChatKey(chat)
		f.verifyChat(key.String(), n, chats[key.String()])
		runs, err := judge.Session(key).Runs(f.t.Context())
		must(f.t, "read the runs", err)
		check(f.t, len(runs) == n, "%s has %d runs, want %d", key, len(runs), n)
		for _, r := range runs {
			check(f.t, r.Status.Terminal() && (!f.Whole || r.Status == spawn.StatusOK),
				"%s is %v: %s", r.Label, r.Status, r.Error)
		}
	}
}

// verifyChat fails the test unless the replies of a chat are those to so many questions.
func (f *Fleet) verifyChat(key string, asked int, c *toldChat) {
	f.t.Helper()
	if c == nil {
		check(f.t, asked == 0, "%s was told nothing", key)
		return
	}
	for i := range asked {
		for _, what := range []string{"asked ", "done "} {
			said := fmt.Sprint(what, i+1)
			n := len(c.keys[said])
			check(f.t, n == 1, "%s: %s came under %d keys", key, said, n)
		}
	}
	check(f.t, len(c.order) == 2*asked, "%s was told %q", key, c.order)
	last := 0
	for _, said := range c.order {
		what, number, _ := strings.Cut(said, " ")
		i, _ := strconv.Atoi(number)
		if what == "asked" {
			check(f.t, i == last+1, "the replies of %s are out of order: %q", key, c.order)
			last = i
		} else {
			check(f.t, i <= last, "%s was told too early of %q", key, said)
		}
	}
}
