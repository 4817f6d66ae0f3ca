package announce_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// These tell this test binary to be a process that will be killed.
const (
	envDedupeDir  = "OFFSHOOT_DEDUPE_DIR"  // where its state is
	envDedupeKeys = "OFFSHOOT_DEDUPE_KEYS" // how many keys it is handed
)

// lanesOfDedupe is how many destinations the process of TestDedupeOverKills has, and so how many
// deliveries a kill can hit between the act and the record.
const lanesOfDedupe = 4

// Processes are killed at random moments. No process acts again upon a key for which an earlier one
// has returned nil. A kill costs at most one repeat for each destination, and in the end every key
// was acted upon.
func TestDedupeOverKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const lives, keys = 12, 600
	dir := t.TempDir()
	acted, acknowledged := make(map[string]int), make(map[string]bool)
	for life := range lives {
		after := keys
		if life < lives-1 { // the last one is not killed
			after = rand.IntN(2*len(acknowledged) + 50) //nolint:gosec // a moment
		}
		acks := runDedupeProcess(t, dir, keys, after)
		effects, err := os.ReadFile(filepath.Join(dir, "effects"))
		require.NoError(t, err)
		now := make(map[string]int)
		for key := range strings.FieldsSeq(string(effects)) {
			now[key]++
		}
		for key, n := range now {
			require.False(t, acknowledged[key] && n > acted[key], "%s was acted upon again", key)
		}
		acted = now
		for _, key := range acks {
			acknowledged[key] = true
		}
	}
	repeats := 0
	for _, n := range acted {
		repeats += n - 1
	}
	require.Len(t, acknowledged, keys)
	require.Len(t, acted, keys)
	require.LessOrEqual(t, repeats, (lives-1)*lanesOfDedupe)
	t.Logf("%d kills, %d keys, %d repeats", lives-1, keys, repeats)
}

// runDedupeProcess starts a process, kills it when it has acknowledged so many keys, unless it
// comes to its end before, and returns the keys that it has acknowledged.
func runDedupeProcess(t *testing.T, dir string, keys, after int) (acks []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDedupeProcess$")
	cmd.Env = append(os.Environ(), envDedupeDir+"="+dir, fmt.Sprint(envDedupeKeys, "=", keys))
	told, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	killed := false
	for lines := bufio.NewScanner(told); lines.Scan(); {
		if key, ok := strings.CutPrefix(lines.Text(), "ack "); ok {
			acks = append(acks, key)
		}
		if !killed && len(acks) > after {
			killed = true
			require.NoError(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); !killed {
		require.NoError(t, err)
	}
	return acks
}

// TestDedupeProcess is the process that is killed. It is handed every key anew.
func TestDedupeProcess(t *testing.T) {
	dir := os.Getenv(envDedupeDir)
	if dir == "" {
		t.Skip("a process of TestDedupeOverKills")
	}
	var keys int
	_, err := fmt.Sscan(os.Getenv(envDedupeKeys), &keys)
	require.NoError(t, err)
	store, err := dirstore.Open(filepath.Join(dir, "state"))
	require.NoError(t, err)
	effects, err := os.OpenFile(filepath.Join(dir, "effects"),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(t, err)
	seen := &announce.Dedupe{Journal: store.Journal}
	deliver := seen.Once(func(_ context.Context, d spawn.Delivery) error {
		_, err := fmt.Fprintln(effects, d.Key)
		return err
	})
	var wg sync.WaitGroup
	for lane := range lanesOfDedupe {
		wg.Go(func() {
			for n := lane; n < keys; n += lanesOfDedupe {
				key := fmt.Sprintf("key-%d", n)
				if err := deliver(t.Context(), repeated(key)); err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(os.Stdout, "ack %s\n", key)
			}
		})
	}
	wg.Wait()
	require.NoError(t, store.Close())
}
