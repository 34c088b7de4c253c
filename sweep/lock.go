package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"spectap/collector"
)

// lockName is the file in --save_dir that a running sweep holds.
const lockName = ".spectap.lock"

// Why a file cannot be locked (flock).
var (
	errLocked  = errors.New("another process holds it")
	errNoLocks = errors.New("the file system takes no locks")
)

// holder is what the lock file says of the sweep that holds it.
type holder struct {
	PID     int    `json:"pid"`
	Host    string `json:"host"`
	Run     string `json:"run"`
	Started string `json:"started"` // UTC
}

// folderLock is held by a sweep for as long as it writes into its folder. The
// kernel ends it with the process, however that ends: the file alone locks nothing.
type folderLock struct {
	file *os.File
	path string
	made []string // folders that were not there, the deepest first
}

// lockFolder keeps other sweeps out of --save_dir. The warning says where it cannot.
func (s *Sweep) lockFolder() (lock *folderLock, warning string, err error) {
	dir := s.Plan.Config.SaveDir
	made := missingFolders(dir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, "", fmt.Errorf("cannot make --save_dir: %w", err)
	}
	own := holder{PID: os.Getpid(), Host: s.Plan.Config.Host, Run: s.runID, Started: collector.Timestamp(s.now())}
	l := &folderLock{path: filepath.Join(dir, lockName), made: made}
	for {
		if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
			return nil, "", fmt.Errorf("cannot lock --save_dir: %w", err)
		}
		last := readHolder(l.file)
		err = flock(l.file)
		if errors.Is(err, errLocked) {
			return nil, "", errors.Join(fmt.Errorf("%w: another sweep runs in --save_dir %q: %s; wait for its end, or choose another --save_dir", ErrUsage, dir, last), l.file.Close())
		}
		if err != nil {
			warning = fmt.Sprintf("cannot lock --save_dir %q (%v): see that no other sweep runs there", dir, err)
		} else if !l.current() { // its holder removed it in the meantime
			_ = l.file.Close()
			continue
		}
		if warning == "" && last.PID != 0 && last.Host != own.Host {
			warning = fmt.Sprintf("the last sweep in --save_dir %q, %s, did not end by itself: if it still runs there and this disk's locks do not reach from machine to machine, end one of the two", dir, last)
		}
		if err := l.write(own); err != nil {
			return nil, warning, errors.Join(fmt.Errorf("cannot write to --save_dir %q: %w", dir, err), l.release())
		}
		return l, warning, nil
	}
}

// current says that the file is still the one that has its name.
func (l *folderLock) current() bool {
	held, err := l.file.Stat()
	named, err2 := os.Stat(l.path)
	return err == nil && err2 == nil && os.SameFile(held, named)
}

func (l *folderLock) write(own holder) error {
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// missingFolders are the folders of a path that are not there, the deepest first.
func missingFolders(dir string) []string {
	var list []string
	for at := filepath.Clean(dir); !exists(at) && filepath.Dir(at) != at; at = filepath.Dir(at) {
		list = append(list, at)
	}
	return list
}

// release removes the file, and the folders that were made for nothing, and lets
// others in.
func (l *folderLock) release() error {
	var err error
	if runtime.GOOS == "windows" { // an open file cannot be removed
		err = errors.Join(l.file.Close(), os.Remove(l.path))
	} else {
		err = errors.Join(os.Remove(l.path), l.file.Close())
	}
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the folder
		err = nil
	}
	for _, dir := range l.made {
		if os.Remove(dir) != nil { // it has files
			break
		}
	}
	return err
}

// readHolder returns the zero holder where the file says nothing.
func readHolder(f *os.File) holder {
	var h holder
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// String names the process.
func (h holder) String() string {
	if h.PID == 0 {
		return "its process is not known"
	}
	at := ""
	if h.Host != "" {
		at = " on " + h.Host
	}
	return fmt.Sprintf("process %d%s, run %s since %s", h.PID, at, h.Run, h.Started)
}
