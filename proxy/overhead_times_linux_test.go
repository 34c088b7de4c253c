package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
)

// eventTimes are the wall-clock nanoseconds of one event.
type eventTimes struct {
	Sent int64 // by the engine, right before its write
	Got  int64 // by the kernel of the client; 0 where it gave none
}

// overheadRun is what the client says of a run.
type overheadRun struct {
	Events int
	Errors []string
}

// finish writes the times of all events, closes all connections, and answers.
func (c *overheadClient) finish(file string) error {
	run := overheadRun{}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, s := range c.all {
		if !s.ended {
			c.failed(s, errors.New("never ended"))
		}
		c.close(s)
		run.Events += len(s.times)
		_ = binary.Write(w, binary.LittleEndian, [2]int64{int64(s.number), int64(len(s.times))})
		_ = binary.Write(w, binary.LittleEndian, s.times)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	run.Errors = slices.Clone(c.errors)
	c.all, c.toStart = nil, 0
	runtime.GC()
	answer(run)
	return nil
}

// readOverheadTimes reads what finish wrote, by the number of the stream.
func readOverheadTimes(file string) (map[int][]eventTimes, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	all := map[int][]eventTimes{}
	for {
		var head [2]int64
		if err := binary.Read(r, binary.LittleEndian, &head); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		times := make([]eventTimes, head[1])
		if err := binary.Read(r, binary.LittleEndian, times); err != nil {
			return nil, err
		}
		all[int(head[0])] = times
	}
}
