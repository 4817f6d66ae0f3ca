package announce_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/growth"
	"github.com/offshoot-sdk/offshoot/spawn"
)

const benchProse = "The quick brown fox jumps over the lazy dog, and [a link](https://example.com/a?b=c) says why: `code` is code.\n" +
	"It costs 12 dollars; the key question is who pays. Ich weiß es nicht – noch nicht.\n\n"

const benchJSON = `{"id":"run_17","status":"completed","title":"Weekly report","count":12,"tags":["a","b"],` + "\n" +
	`"author":{"name":"Ann","url":"https://example.com/ann"},"text":"It went well.\nNothing is open."},` + "\n"

const benchLog = `2026-03-01T12:00:01.203Z INFO  http request method=GET path=/api/v1/items/17 status=200 took=12ms id=5f2b9c` + "\n" +
	`2026-03-01T12:00:01.310Z WARN  worker[3] retry in 2s: dial tcp 10.0.0.7:5432: i/o timeout (attempt 2 of 5)` + "\n"

// benchInputs are the texts that the sanitizers mostly see, about 64 KiB of each sort.
var benchInputs = map[string]string{
	"plain": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 64<<10/45),
	"prose": strings.Repeat(benchProse, 64<<10/len(benchProse)),
	"tags":  strings.Repeat(benchProse+"<b>x</b> 1 < 2 ", 64<<10/(len(benchProse)+15)),
	"thought": "<think>" + strings.Repeat(benchProse, 32<<10/len(benchProse)) + "</think>" +
		strings.Repeat(benchProse, 32<<10/len(benchProse)),
	"json": strings.Repeat(benchJSON, 64<<10/len(benchJSON)),
	"log":  strings.Repeat(benchLog, 64<<10/len(benchLog)),
	"code": strings.Repeat("```go\nif a < b && m[i] > 0 {\n\treturn `x`\n}\n```\n", 64<<10/49),
}

func BenchmarkSanitize(b *testing.B) {
	benchEachText(b, func(text string) { announce.Sanitize(text) })
}

func BenchmarkVisible(b *testing.B) {
	benchEachText(b, func(text string) { announce.Visible(text) })
}

// BenchmarkRedactor measures Redact with registered secrets that the texts do not have.
func BenchmarkRedactor(b *testing.B) {
	for _, count := range []int{1, 10, 100} {
		var secrets []string
		for i := range count {
			secrets = append(secrets, fmt.Sprintf("%cs%02dcret-%d-value%d", 'a'+i*7%26, i, i*7919, i))
		}
		r, err := announce.NewRedactor(announce.Redaction{Secrets: secrets})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			benchEachText(b, func(text string) { r.Redact(text) })
		})
	}
}

func BenchmarkRedact(b *testing.B) {
	benchEachText(b, func(text string) { announce.Redact(text) })
}

// BenchmarkStream measures a Stream that takes deltas of 5 bytes, with Visible and Redact of the
// same text beside it. The ratio is how many times as long the Stream takes.
func BenchmarkStream(b *testing.B) {
	const deltas, size = 10_000, 5
	text := repeatTo(benchProse, deltas*size)[:deltas*size]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		streamed(text, size)
	}
	perStream := b.Elapsed() / time.Duration(b.N)
	began := time.Now()
	const times = 100
	for range times {
		whole, _ := announce.Visible(text)
		announce.Redact(whole)
	}
	whole := time.Since(began) / times
	b.ReportMetric(float64(len(text))/1e6/whole.Seconds(), "whole-MB/s")
	b.ReportMetric(float64(perStream)/float64(whole), "ratio")
}

// benchEachText measures f on each of benchInputs. Beside the MB/s of the clock on the wall, which
// others on the machine disturb, it reports those of the processor's time, and how many times as
// long f takes as its floors, measured in the same run: one pass that looks each byte up in a table
// (x-floor), and a copy of the text with utf8.Valid (x-copy).
func benchEachText(b *testing.B, f func(string)) {
	for name, text := range benchInputs {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			began := growth.ProcessorTime()
			for b.Loop() {
				f(text)
			}
			each := float64(growth.ProcessorTime()-began) / float64(b.N)
			const floors = 100
			count := 0
			began = growth.ProcessorTime()
			for range floors {
				for i := range len(text) {
					if benchTable[text[i]] {
						count++
					}
				}
			}
			floor := float64(growth.ProcessorTime()-began) / floors
			valid := 0
			began = growth.ProcessorTime()
			for range floors {
				if utf8.ValidString(strings.Clone(text)) {
					valid++
				}
			}
			b.ReportMetric(each/max(float64(growth.ProcessorTime()-began)/floors, 1), "x-copy")
			b.ReportMetric(float64(len(text))*1e3/each, "cpu-MB/s")
			b.ReportMetric(each/floor, "x-floor")
			if count == 0 || valid != floors {
				b.Fatal("the floors have found nothing")
			}
		})
	}
}

var benchTable = [256]bool{'<': true, '[': true, ' ': true, '"': true}

// BenchmarkHostile shows that the throughput does not depend on the size: the MB/s of a small and a
// large input of the same kind are alike.
func BenchmarkHostile(b *testing.B) {
	for name, input := range hostileInputs {
		for size, n := range map[string]int{"64KiB": 64 << 10, "1MiB": 1 << 20} {
			text := input(n)
			b.Run(name+"/"+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					announce.Visible(text)
					announce.Redact(text)
				}
			})
		}
	}
}

func BenchmarkForModel(b *testing.B) {
	results := map[string]string{"short": "Go is a language.", "64KiB": benchInputs["prose"]}
	for name, text := range results {
		b.Run(name, func(b *testing.B) {
			e := testEvent(func(c *spawn.Completion) {
				c.Run.Result.Text = text
			})
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_ = e.ForModel()
			}
		})
	}
}

func BenchmarkNewEvent(b *testing.B) {
	c := testCompletion()
	b.ReportAllocs()
	for b.Loop() {
		_ = announce.NewEvent(c)
	}
}
