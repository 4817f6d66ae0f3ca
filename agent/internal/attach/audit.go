package attach

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// An AuditError is something below .offshoot that cannot be there.
type AuditError struct {
	Path   string // slash-separated, below the work directory
	Reason string
}

func (e *AuditError) Error() string { return "attach: " + e.Path + " " + e.Reason }

// Audit looks at what stands below .offshoot in a work directory. Owners are the sessions that may
// have files there, by their ids, with what they were given. Each directory belongs to one of them,
// and one with a list of the files has all of them, with their bytes. One without is what a process
// left that died while it wrote them. The error is an *[AuditError], or one of base.
func Audit(base fs.FS, owners map[string][]File) error {
	for _, dir := range []string{TopDir, path.Join(TopDir, FilesDir)} {
		list, err := fs.ReadDir(base, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range list {
			at := path.Join(dir, e.Name())
			files, owned := owners[e.Name()]
			switch {
			case !e.IsDir():
				err = &AuditError{at, "is not a directory"}
			case dir == TopDir && e.Name() != FilesDir:
				err = &AuditError{at, "is not of attachments"}
			case dir == TopDir:
			case !owned:
				err = &AuditError{at, "belongs to no session that is alive"}
			default:
				err = auditFiles(base, at, files)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// auditFiles looks at the directory of the files of one session.
func auditFiles(base fs.FS, dir string, files []File) error {
	_, err := fs.Stat(base, path.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		at := path.Join(dir, f.Name)
		data, err := fs.ReadFile(base, at)
		if errors.Is(err, fs.ErrNotExist) {
			return &AuditError{at, "is missing"}
		}
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.Hash {
			return &AuditError{at, fmt.Sprintf("has %d other bytes than the %d that were given",
				len(data), f.Size)}
		}
	}
	return err
}
