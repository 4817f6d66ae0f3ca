package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"
)

// A Result is what came of a load.
type Result struct {
	Took []Took // those that took least first
}

// Part returns the time that one of so many sub-agents exceeds: of two it is the median.
func (r Result) Part(n int) time.Duration {
	if len(r.Took) == 0 {
		return 0
	}
	return r.Took[len(r.Took)-1-len(r.Took)/n].Time
}

// Fairness returns how many sub-agents the requesters had that had the fewest and the most.
func (r Result) Fairness() (fewest, most int) {
	count := make(map[int]int)
	for _, t := range r.Took {
		count[t.Requester]++
	}
	for _, n := range count {
		if fewest == 0 || n < fewest {
			fewest = n
		}
		most = max(most, n)
	}
	return fewest, most
}

// A process is a process of the operating system with a part of a load.
type process struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	failed *bytes.Buffer
}

// Run has so many processes share a load with so many requesters, and waits for its end. start
// returns what calls Load.Serve with its standard input and output when it is run; it is killed at
// the end of ctx.
func Run(
	ctx context.Context, processes, requesters int, l Load,
	start func(ctx context.Context, l Load) *exec.Cmd,
) (r Result, err error) {
	var all []*process
	defer func() {
		for _, p := range all {
			_ = p.in.Close()
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	}()
	for i := range processes {
		l.Name, l.Requesters = fmt.Sprint("p", i), nil
		for n := i; n < requesters; n += processes {
			l.Requesters = append(l.Requesters, n)
		}
		p, err := begin(start(ctx, l))
		if p != nil {
			all = append(all, p)
		}
		if err != nil {
			return r, err
		}
	}
	for _, p := range all {
		if _, err := fmt.Fprintln(p.in); err != nil {
			return r, p.why(err)
		}
	}
	for _, p := range all {
		took, err := p.took()
		if err != nil {
			return r, p.why(err)
		}
		r.Took = append(r.Took, took...)
	}
	slices.SortFunc(r.Took, func(a, b Took) int { return int(a.Time - b.Time) })
	return r, nil
}

// begin starts a process, and waits until its Runtime has begun. The caller ends the process, if
// there is one.
func begin(cmd *exec.Cmd) (*process, error) {
	p := &process{Cmd: cmd, failed: new(bytes.Buffer)}
	cmd.Stderr = p.failed
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.begun(); err != nil {
		return p, p.why(err)
	}
	return p, nil
}

// begun waits until the Runtime of a process has begun.
func (p *process) begun() error {
	line, err := p.out.ReadString('\n')
	if err == nil && line != "begun\n" {
		err = fmt.Errorf("load: it says %q", line)
	}
	return err
}

// took waits until a process has done its part, and returns what it says of that.
func (p *process) took() (took []Took, err error) {
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &took)
	}
	return took, err
}

// why returns the error of a process that did not do its part.
func (p *process) why(err error) error {
	_ = p.Process.Kill()
	_ = p.Wait()
	return fmt.Errorf("load: a process has failed: %w: %.2000s", err, p.failed)
}
