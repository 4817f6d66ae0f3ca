//go:build !windows

package disk

import (
	"errors"
	"os"
)

// syncDir makes the names in a directory durable.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
