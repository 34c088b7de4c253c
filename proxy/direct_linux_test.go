package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// directPair is a client's connection as the proxy accepts it, and the client's end.
func directPair(t *testing.T) (ours net.Conn, theirs *net.TCPConn) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err = patientListener{Listener: ln}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _, _ = ours.Close(), c.Close() })
	if _, ok := ours.(*directConn); !ok {
		t.Fatalf("the proxy accepts a %T", ours)
	}
	return ours, c.(*net.TCPConn)
}

// A write above what the socket takes is finished when the reader goes on, also between two writers.
func TestDirectWriteWhole(t *testing.T) {
	ours, theirs := directPair(t)
	ours.(*directConn).told = 2 // as with one processor
	const writers, size = 2, 8 << 20
	for i := range writers {
		go func() {
			b := bytes.Repeat([]byte{byte('a' + i)}, size)
			if n, err := ours.Write(b); n != size || err != nil {
				t.Errorf("got %d, %v, want %d bytes written", n, err, size)
			}
		}()
	}
	got := make([]byte, 0, writers*size)
	room := make([]byte, 1<<20)
	for len(got) < writers*size {
		n, err := theirs.Read(room[:1+rand.IntN(len(room))])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, room[:n]...)
	}
	if first := bytes.Repeat(got[:1], size); !bytes.Equal(got[:size], first) || bytes.ContainsAny(got[size:], string(got[:1])) {
		t.Error("the bytes of two writes are mixed")
	}
	if n, err := ours.Write(nil); n != 0 || err != nil {
		t.Errorf("an empty write returned %d, %v", n, err)
	}
}

// Errors are those of the connection itself: fasthttp and stream.clientFailed look at them.
func TestDirectWriteErrors(t *testing.T) {
	ours, theirs := directPair(t)
	full := make([]byte, 32<<20)
	if err := ours.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := ours.Write(full) // nobody reads
	if !errors.Is(err, os.ErrDeadlineExceeded) || !isTimeout(err) || n == 0 || n == len(full) {
		t.Errorf("at the write limit: got %d, %v", n, err)
	}
	_ = ours.SetWriteDeadline(time.Time{})
	blocked := make(chan error)
	go func() {
		_, err := ours.Write(full)
		blocked <- err
	}()
	_ = theirs.SetLinger(0)
	_ = theirs.Close()
	if err := <-blocked; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("of a reset connection: got %v", err)
	}
	if n, err := ours.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("after the reset: got %d, %v", n, err)
	}
	_ = ours.Close()
	if n, err := io.WriteString(ours, "x"); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: got %d, %v", n, err)
	}
}

// With one processor some writes tell Go's scheduler, with several none.
func TestDirectTellsWithOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []int{1, 2} {
		runtime.GOMAXPROCS(n)
		ours, _ := directPair(t)
		want := map[int]uint{1: toldWrites, 2: 0}[n]
		if got := ours.(*directConn).told; got != want {
			t.Errorf("%d processors: one write in %d is told, want %d", n, got, want)
		}
	}
}
