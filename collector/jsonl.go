package collector

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// jsonlQueue is how many Records may wait for the disk; a Record of 300 chunks
// holds about 12 KB, so a full queue holds about 100 MB.
const jsonlQueue = 8192

// JSONL is a Sink that appends one line a Record to a file. Emit only queues;
// one goroutine encodes and writes, with one write call a line, so that a
// killed process leaves whole lines (a kill inside the kernel's copy of a long
// line can still tear the last one; the reader reports it and the next process
// starts on a new line). Close ends the goroutine.
//
//	Emit ─▶ queue (bounded; full: counted and dropped) ─▶ one goroutine ─▶ file
type JSONL struct {
	// KeepTexts keeps prompts, system messages, replies and captured headers. It is set before the first Emit.
	KeepTexts bool
	// Failed is called with the first write error, and the first time that a full file cannot be set aside, from the
	// writing goroutine. It is set before the first Emit.
	Failed func(error)
	// Rotation bounds the file. It is set before the first Emit.
	Rotation Rotation
	// Patience is how long Close waits for a write that does not return, as on a
	// pipe that nobody reads; 0 waits for ever. It is set before Close.
	Patience time.Duration

	w       io.Writer
	path    string // "" for a writer that is no file of ours
	size    int64  // bytes in the file
	head    []byte // the line of the last Run, with which every file begins
	queue   chan jsonlItem
	ended   chan struct{}
	dropped atomic.Uint64
	taken   atomic.Uint64 // lines of the queue that are done with

	mu  sync.Mutex // of err, and of the writing goroutine's changes of w
	err error      // the first write error

	unrotated bool // the file could not be set aside; only the goroutine touches it

	torn bool // the file ends in a partial line; only the goroutine (and OpenJSONL) touches it
}

// jsonlItem is a Record, or a Run or a Reopen that somebody waits for.
type jsonlItem struct {
	rec    *Record
	run    *Run
	reopen bool
	done   chan error
}

// OpenJSONL appends to the file at path, or creates it, readable by its owner and group only.
func OpenJSONL(path string) (*JSONL, error) {
	o, err := openRecords(path)
	if err != nil {
		return nil, err
	}
	j := &JSONL{w: o.f, path: path, size: o.size, torn: o.torn}
	j.start(jsonlQueue)
	return j, nil
}

// opened is a records file at its end.
type opened struct {
	f    *os.File
	size int64
	torn bool
}

func openRecords(path string) (opened, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return opened{}, fmt.Errorf("cannot open records file: %w", err)
	}
	o := opened{f: f}
	info, err := f.Stat()
	if err == nil {
		o.size = info.Size()
		o.torn, err = endsInPartialLine(f, info)
	}
	if err != nil {
		return opened{}, errors.Join(fmt.Errorf("cannot read the end of records file %q: %w", path, err), f.Close())
	}
	return o, nil
}

// newJSONL writes to w, which is closed by Close if it can be.
func newJSONL(w io.Writer, queue int, torn bool) *JSONL {
	j := &JSONL{w: w, torn: torn}
	j.start(queue)
	return j
}

func (j *JSONL) start(queue int) {
	j.queue, j.ended = make(chan jsonlItem, queue), make(chan struct{})
	go j.drain()
}

// endsInPartialLine looks at the last byte. A file without a size, such as a pipe, has no partial line.
func endsInPartialLine(f *os.File, info os.FileInfo) (bool, error) {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return false, nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Emit implements Sink. It never waits: a Record that finds the queue full is counted and dropped.
func (j *JSONL) Emit(r *Record) {
	select {
	case j.queue <- jsonlItem{rec: r}:
	default:
		j.dropped.Add(1)
	}
}

// WriteRun writes the line that describes the Records after it, and waits until it is written.
func (j *JSONL) WriteRun(run Run) error {
	done := make(chan error, 1)
	j.queue <- jsonlItem{run: &run, done: done}
	return <-done
}

// Dropped returns how many Records are not in the file: the queue was full or the write failed.
func (j *JSONL) Dropped() uint64 { return j.dropped.Load() }

// Err returns the first write error, while the process still runs.
func (j *JSONL) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close writes what is queued, syncs and closes the file, and returns the first error of all.
func (j *JSONL) Close() error {
	close(j.queue)
	if !j.drained() {
		return j.giveUp()
	}
	if f, ok := j.w.(*os.File); ok && j.Err() == nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			j.fail(f.Sync())
		}
	}
	if c, ok := j.w.(io.Closer); ok {
		j.fail(c.Close())
	}
	return j.Err()
}

// drained waits until all is written; false if no line was written for as long as Patience.
func (j *JSONL) drained() bool {
	if j.Patience <= 0 {
		<-j.ended
		return true
	}
	for last := j.taken.Load(); ; {
		select {
		case <-j.ended:
			return true
		case <-time.After(j.Patience):
		}
		now := j.taken.Load()
		if now == last {
			return false
		}
		last = now
	}
}

// giveUp closes the file under a write that does not return. On a pipe or a
// socket the write then fails, and so do those behind it; a disk that hangs may
// hold its goroutine.
func (j *JSONL) giveUp() error {
	j.fail(fmt.Errorf("no line was taken for %s", j.Patience))
	j.mu.Lock()
	w := j.w
	j.mu.Unlock()
	if c, ok := w.(io.Closer); ok {
		_ = c.Close() // the error above says more
	}
	select {
	case <-j.ended:
	case <-time.After(j.Patience):
		j.dropped.Add(uint64(len(j.queue)) + 1)
	}
	return j.Err()
}

func (j *JSONL) fail(err error) {
	if err == nil {
		return
	}
	j.mu.Lock()
	first := j.err == nil
	if first {
		j.err = fmt.Errorf("cannot write records: %w", err)
	}
	err = j.err
	j.mu.Unlock()
	if first && j.Failed != nil {
		j.Failed(err)
	}
}

func (j *JSONL) drain() {
	defer close(j.ended)
	for item := range j.queue {
		err := j.writeItem(item)
		j.taken.Add(1)
		if !item.reopen { // the old file goes on: nothing is lost
			j.fail(err)
		}
		if item.done != nil {
			item.done <- err
			continue
		}
		if err != nil {
			j.dropped.Add(1)
		}
	}
}

func (j *JSONL) writeItem(item jsonlItem) error {
	switch {
	case item.reopen:
		return j.reopen()
	case item.run != nil:
		line, err := encodeRun(*item.run, j.KeepTexts)
		if err != nil {
			return err
		}
		j.head = line
		return j.writeLine(line)
	}
	line, err := encodeRecord(item.rec, j.KeepTexts)
	if err != nil {
		return err
	}
	if err := j.makeRoom(len(line), item.rec.Start); err != nil && !j.unrotated {
		j.unrotated = true // told once; the file grows on
		if j.Failed != nil {
			j.Failed(err)
		}
	}
	return j.writeLine(line)
}

// writeLine writes one line in one call. After a short write the next line begins with a newline of its own.
func (j *JSONL) writeLine(line []byte) error {
	if j.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := j.w.Write(line)
	j.size += int64(n)
	if n > 0 {
		j.torn = line[n-1] != '\n'
	}
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	return err
}

// encodeRecord returns the line of a Record, its newline included.
func encodeRecord(r *Record, keepTexts bool) ([]byte, error) {
	w := r.wire()
	if !keepTexts {
		w.Prompt, w.Reply, w.Reasoning, w.Headers = "", "", "", nil
	}
	line, err := marshalPlain(w)
	return append(line, '\n'), err
}

// encodeRun returns the line of a Run, its newline included.
func encodeRun(run Run, keepTexts bool) ([]byte, error) {
	if !keepTexts {
		questions := make([]Question, len(run.Questions))
		for i, q := range run.Questions {
			q.System, q.Prompts = "", nil
			questions[i] = q
		}
		run.Questions = questions
	}
	line, err := run.MarshalJSON()
	return append(line, '\n'), err
}
