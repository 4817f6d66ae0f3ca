package main

func Example() {
	show()
	// Output:
	// main main 0 false
	// main direct 0 false
	// main subagent 1 true
	// ops subagent 2 true
	// session: invalid key "agent:main:subagent:": at byte 20: empty segment
}
