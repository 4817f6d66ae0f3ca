package main

import "fmt"

func main() {
	fmt.Println("go test -v ./examples/histories finds the mistakes of two versions of a Desk.")
}
