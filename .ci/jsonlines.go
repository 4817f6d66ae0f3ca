// Jsonlines fails unless its standard input is JSON objects, one a line, and at least one.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	n := 0
	for lines.Scan() {
		n++
		var object map[string]any
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			fail(fmt.Errorf("line %d is no JSON object: %w: %.200q", n, err, lines.Text()))
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
	if n == 0 {
		fail(fmt.Errorf("no line at all"))
	}
	fmt.Println(n, "JSON lines")
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "jsonlines:", err)
	os.Exit(1)
}
