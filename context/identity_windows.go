package agentctx

import (
	"io/fs"
	"os"
	"syscall"
)

// onDisk reports whether info describes a file of the operating system.
func onDisk(info fs.FileInfo) bool {
	_, ok := info.Sys().(*syscall.Win32FileAttributeData)
	return ok
}

// hardLinks returns how many names an open file has, where that can be told.
func hardLinks(f fs.File, _ fs.FileInfo) (uint64, bool) {
	file, ok := f.(*os.File)
	if !ok {
		return 0, false
	}
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(file.Fd()), &info); err != nil {
		return 0, false
	}
	return uint64(info.NumberOfLinks), true
}
