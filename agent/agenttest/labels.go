package agenttest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
)

// probeLabel is the name of the label of the goroutines of a probe. A goroutine has the labels of
// the one that has started it, so that what a probe sees is not what another test has left.
const probeLabel = "agenttest-probe"

// probes counts the labels of this process.
var probes atomic.Int64

// newLabel returns the label of another probe.
func newLabel() string { return strconv.FormatInt(probes.Add(1), 10) }

// labelsOf returns the labels of the goroutines of a probe.
func labelsOf(label string) pprof.LabelSet { return pprof.Labels(probeLabel, label) }

// labelled returns the parts of a profile of the goroutines of this process that have the label of
// a probe. A part may stand for several goroutines.
func labelled(label string) []string {
	var dump bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&dump, 1)
	var found []string
	for part := range strings.SplitSeq(dump.String(), "\n\n") {
		if strings.Contains(part, fmt.Sprintf("%q:%q", probeLabel, label)) {
			found = append(found, part)
		}
	}
	return found
}

// countLabelled returns how many goroutines have the label of a probe.
func countLabelled(label string) (n int) {
	for _, part := range labelled(label) {
		for line := range strings.Lines(part) {
			if count, _, ok := strings.Cut(line, " @ "); ok {
				alike, _ := strconv.Atoi(count)
				n += alike
			}
		}
	}
	return n
}
