package collector

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// maxLine is the longest line of a records file, in bytes. A longer one is damage:
// it is reported and skipped, so that no file makes a reader hold it whole.
const maxLine = 256 << 20

// batchBytes is how much of a records file is parsed at a time.
const batchBytes = 1 << 20

// Line is a line of a records file: a Run, a Record, or what is wrong with it.
type Line struct {
	Number int // from 1
	Bytes  int // its length
	Run    *Run
	Record *Record
	Err    error
}

// EachLine shows visit the lines of a records file in their order, blank ones left
// out, and ends with the first error of visit or of r. It parses on all processors
// and holds a few megabytes of lines, or a few lines where they are longer.
//
//	r ──▶ batch ──▶ parse, a goroutine each ──▶ visit, in order
func EachLine(r io.Reader, visit func(Line) error) error {
	batches := make(chan *lineBatch, runtime.GOMAXPROCS(0))
	stop := make(chan struct{})
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		defer close(batches)
		failed = readBatches(r, maxLine, func(b *lineBatch) bool {
			running.Go(b.parse)
			select {
			case batches <- b:
				return true
			case <-stop:
				return false
			}
		})
	})
	err := visitAll(batches, visit)
	close(stop)
	running.Wait()
	return errors.Join(err, failed)
}

// visitAll shows visit the lines of each batch, once it is parsed.
func visitAll(batches <-chan *lineBatch, visit func(Line) error) error {
	for b := range batches {
		<-b.parsed
		for _, line := range b.lines {
			if err := visit(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// lineBatch is some lines that follow each other.
type lineBatch struct {
	texts  [][]byte
	lines  []Line
	parsed chan struct{} // closed once lines are read from texts
}

func (b *lineBatch) parse() {
	defer close(b.parsed)
	for i, text := range b.texts {
		if b.lines[i].Err == nil {
			b.lines[i].read(text)
		}
		b.texts[i] = nil
	}
}

// read fills the Line with what stands in text.
func (l *Line) read(text []byte) {
	schema, err := schemaOf(text)
	switch {
	case err != nil:
		l.Err = err
	case schema == SchemaRun:
		run := new(Run)
		if l.Err = run.UnmarshalJSON(text); l.Err == nil {
			l.Run = run
		}
	case schema == SchemaRecord:
		rec := new(Record)
		if l.Err = rec.UnmarshalJSON(text); l.Err == nil {
			l.Record = rec
		}
	default:
		l.Err = fmt.Errorf("cannot read a line of schema %q, want %q or %q: %w", schema, SchemaRecord, SchemaRun, errSchema)
	}
}

// readBatches gathers lines until take refuses a batch or r ends. What came before
// a failure of r is taken, too.
func readBatches(r io.Reader, limit int, take func(*lineBatch) bool) error {
	in := bufio.NewReaderSize(r, 1<<16)
	b, size := &lineBatch{parsed: make(chan struct{})}, 0
	for n := 1; ; n++ {
		text, length, err := readLine(in, limit)
		failed := err != nil && !errors.Is(err, io.EOF)
		switch text = bytes.TrimSpace(text); {
		case failed:
		case length > limit:
			b.add(Line{Number: n, Bytes: length, Err: fmt.Errorf("cannot read a line of %d bytes: want at most %d", length, limit)}, nil)
		case len(text) > 0:
			b.add(Line{Number: n, Bytes: length}, text)
			size += length
		}
		if (size >= batchBytes || err != nil) && len(b.lines) > 0 {
			if !take(b) {
				return nil
			}
			b, size = &lineBatch{parsed: make(chan struct{})}, 0
		}
		if failed {
			return fmt.Errorf("cannot read records: %w", err)
		}
		if err != nil {
			return nil
		}
	}
}

func (b *lineBatch) add(l Line, text []byte) {
	b.lines, b.texts = append(b.lines, l), append(b.texts, text)
}

// readLine reads one line and its length; of one that is longer than limit the
// length alone.
func readLine(in *bufio.Reader, limit int) (text []byte, length int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if length += len(part); length <= limit {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, length, err
		}
	}
}
