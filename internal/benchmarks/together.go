package main

import (
	"errors"
	"sync"
)

// together calls f for 0 to n-1, in a goroutine each, waits for all, and returns their errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
