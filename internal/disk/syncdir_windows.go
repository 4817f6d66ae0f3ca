package disk

import "os"

// syncDir returns an error if the directory is gone. Windows cannot sync a directory. NTFS logs
// names and writes the log within moments. Package os does not use the form of MoveFileEx that
// waits for that, MOVEFILE_WRITE_THROUGH.
func syncDir(name string) error {
	_, err := os.Lstat(name)
	return err
}
