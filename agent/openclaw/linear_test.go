package openclaw_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// filled returns a text of at least n bytes: what each gives for 0, 1 and so on, in a frame.
func filled(before, after string, each func(i int) string) func(n int) string {
	return func(n int) string {
		var b strings.Builder
		b.WriteString(before)
		for i := 0; b.Len() < n; i++ {
			b.WriteString(each(i))
		}
		return b.String() + after
	}
}

// same is what is the same each time.
func same(text string) func(int) string { return func(int) string { return text } }

// numbered is what has the number in it, as often as the format has %[1]d.
func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// hostileFiles are texts of a file that ask for as much work as they can, of any length.
var hostileFiles = map[string]func(n int) string{
	"agents":           filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",tools:{allow:["x*y%[1]d"]}},`)),
	"agents, no id":    filled(`{agents:{list:[`, `]}}`, same(`{},`)),
	"agents, one id":   filled(`{agents:{list:[`, `]}}`, same(`{id:"a"},`)),
	"agents, bad ids":  filled(`{agents:{list:[`, `]}}`, same("\n{id:'!!'},")),
	"agents, bad":      filled(`{agents:{list:[`, `]}}`, same(`{id:7},`)),
	"agents, odd ids":  filled(`{agents:{list:[`, `]}}`, numbered(`{id:"A %[1]d"},`)),
	"agents, defaults": filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",default:true},`)),
	"agents, models":   filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",model:"a b"},`)),
	"agents, levels":   filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",subagents:{thinking:"?"}},`)),
	"agents, rules":    filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",tools:{profile:"?"}},`)),
	"agents, places":   filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",workspace:"/none/%[1]d"},`)),
	"agents, names":    filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",name:"\u200b"},`)),
	"entries":          filled(`{agents:{entries:{`, `}}}`, numbered(`a%[1]d:{},`)),
	"an old agent":     filled(`{agent:{`, `}}`, numbered(`a%[1]d:1,`)),
	"allowed agents":   filled(`{agents:{defaults:{subagents:{allowAgents:[`, `]}}}}`, numbered(`"a%[1]d",`)),
	"both":             filled(`{agents:{list:[`, `]}}`, numbered(`{id:"a%[1]d",subagents:{allowAgents:["b%[1]d","a0"]}},`)),
	"unknown":          filled(`{agents:{defaults:{subagents:{`, `}}}}`, numbered(`z%[1]d:1,`)),
	"one name":         filled(`{agents:{defaults:{subagents:{`, `}}}}`, same(`zz:1,`)),
	"unknown, at top":  filled(`{`, `}`, numbered(`z%[1]d:1,`)),
	"includes":         filled(`{`, `}`, same(`"$include":"x",`)),
	"variables":        filled(`{env:{A:"x"},agents:{defaults:{workspace:"`, `"}}}`, same(`${A}`)),
	"no variables":     filled(`{agents:{defaults:{workspace:"`, `"}}}`, same(`${A}`)),
	"begun variables":  filled(`{agents:{defaults:{workspace:"`, `"}}}`, same(`${`)),
	"deny":             filled(`{tools:{deny:[`, `]}}`, numbered(`"a%[1]d*",`)),
	"groups of tools":  filled(`{tools:{groups:{`, `}}}`, numbered(`"g%[1]d":["group:g%[1]d"],`)),
	"owners":           filled(`{commands:{ownerAllowFrom:[`, `]}}`, same(`" ",`)),
	"people":           filled(`{tools:{toolsBySender:{`, `}}}`, numbered(`"id:%[1]d":{deny:["x"]},`)),
	"named people":     filled(`{tools:{toolsBySender:{`, `}}}`, numbered(`"name:%[1]d":{deny:["x"]},`)),
	"bindings":         filled(`{bindings:[`, `]}`, numbered(`{agentId:"a%[1]d",match:{channel:"x"}},`)),
	"rooms":            filled(`{channels:{telegram:{groups:{`, `}}}}`, numbered(`"-%[1]d":{tools:{deny:["x"]},toolsBySender:{"%[1]d":{deny:["y"]}}},`)),
	"channels":         filled(`{channels:{`, `}}`, numbered(`c%[1]d:{threadBindings:{enabled:true}},`)),
	"old channels":     filled(`{channels:{`, `}}`, numbered(`c%[1]d:{threadBindings:{ttlHours:1}},`)),
	"accounts":         filled(`{channels:{x:{accounts:{`, `}}}}`, numbered(`a%[1]d:{threadBindings:{enabled:true}},`)),
	"models":           filled(`{agents:{defaults:{models:{`, `}}}}`, numbered(`"p/m%[1]d":{alias:"al%[1]d"},`)),
	"one alias":        filled(`{agents:{defaults:{models:{`, `}}}}`, numbered(`"p/m%[1]d":{alias:"a"},`)),
	"prices":           filled(`{models:{providers:{p:{models:[`, `]}}}}`, numbered(`{id:"m%[1]d",cost:{input:1}},`)),
	"one price":        filled(`{models:{providers:{p:{models:[`, `]}}}}`, same(`{id:"m",cost:{input:1}},`)),
	"skills":           filled(`{skills:{entries:{`, `}}}`, numbered(`s%[1]d:{enabled:false},`)),
	"skills, dirs":     filled(`{skills:{load:{extraDirs:[`, `]}}}`, numbered(`"/none/%[1]d",`)),
	"a long name":      filled(`{`, `:1}`, same(`a`)),
	"members of one":   filled(`{channels:{"`+strings.Repeat("x", 1000)+`":{groups:{`, `}}}}`, numbered(`"%[1]d":1,`)),
	"a dotted name":    filled(`{channels:{"`+strings.Repeat(".", 1000)+`":{groups:{`, `}}}}`, numbered(`"%[1]d":1,`)),
	"lines":            filled(`{`, `}`, same("\n")),
	"comments":         filled(``, `{}`, same(`/**/`)),
	"open":             filled(``, ``, same(`[`)),
	"escapes":          filled(`{a:"`, `"}`, same(`\u0061`)),
	"continued":        filled(`{a:"`, `"}`, same("\\\n")),
	"a string":         filled(`{agents:{defaults:{thinkingDefault:"`, `"}}}`, same(`x`)),
	"a wrong word":     filled(`{agents:{list:[{id:"a",name:"`, `"}]}}`, same("\u200b")),
	"numbers":          filled(`{a:[`, `]}`, same(`0x1,`)),
}

// nothing is where no directory of a file is.
func nothing(string) (fs.FS, error) { return nil, fs.ErrNotExist }

// readFile reads a text, and has what it says take effect, or says what is wrong with it.
func readFile(text string) {
	o := openclaw.Options{
		OpenDir: nothing, Home: "/none", Env: func(string) (string, bool) { return "", false },
	}
	r, err := openclaw.Parse([]byte(text), o)
	if err != nil {
		_ = err.Error()
		for _, e := range errorsOf(err) {
			_ = e.Error()
		}
		return
	}
	var cfg agent.Config
	r.Apply(&cfg)
	_ = r.Changes(r)
}

func errorsOf(err error) openclaw.FieldErrors {
	all, _ := errors.AsType[openclaw.FieldErrors](err)
	return all
}

// On every hostile file the time grows as its length does: at most by 2.6 where the length doubles,
// twice. What is not noise shows in the best of several measurements. Nothing else of this package
// runs beside the test.
func TestHostileFilesAreLinear(t *testing.T) {
	const short, doublings, most = 16 << 10, 2, 2.6
	for name, file := range hostileFiles {
		if underRace {
			readFile(file(2 << 10))
			continue
		}
		t.Run(name, func(t *testing.T) {
			before, after := time.Hour, time.Hour
			grown := 0.0
			for range 12 {
				runtime.GC() // memory that was used before costs less time than new memory
				before = min(before, timeOf(4, file(short))/4)
				after = min(after, timeOf(1, file(short<<doublings)))
				grown = math.Pow(float64(after)/float64(before), 1.0/doublings)
				if grown <= most {
					break
				}
			}
			require.LessOrEqual(t, grown, most, "%v for %d KB", after, short<<doublings>>10)
		})
	}
}

// timeOf returns how long it takes to read a text so many times.
func timeOf(times int, text string) time.Duration {
	begun := time.Now()
	for range times {
		readFile(text)
	}
	return time.Since(begun)
}
