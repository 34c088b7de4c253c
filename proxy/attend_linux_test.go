package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spectap/collector"
)

// upstreamPair is a connection to an engine as the proxy dials it, watched, and the engine's end.
func upstreamPair(t *testing.T) (ours *upConn, theirs *net.TCPConn) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	to, err := parseUpstream("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{dialer: newDialer(to, patience), watcher: w}
	if ours, err = p.dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), c.Close() })
	return ours, c.(*net.TCPConn)
}

// Events that come one after another are read without a read that finds nothing
// behind each of them.
func TestAttendReadsOnce(t *testing.T) {
	const events = 200
	ours, theirs := upstreamPair(t)
	acks := make(chan struct{})
	go func() {
		for range events {
			_, _ = theirs.Write([]byte("event"))
			<-acks
		}
		_ = theirs.Close()
	}()
	empty, got, room := 0, 0, make([]byte, 100)
	err := ours.Conn.(attendant).attend(func() bool {
		n, err := ours.Read(room)
		switch {
		case err == errNothing:
			empty++
			return true
		case err != nil:
			return false
		}
		got += n
		acks <- struct{}{}
		return got < events*len("event")
	})
	if err != nil || got != events*len("event") {
		t.Fatalf("got %d bytes, %v", got, err)
	}
	if empty > events/4 {
		t.Errorf("%d reads of %d found nothing", empty, empty+events)
	}
}

// The end of a connection ends the wait, also where the last bytes and the end
// came together: the read that gets the bytes is the last news of both.
func TestAttendSeesTheEnd(t *testing.T) {
	f := func(name string, leave func(*net.TCPConn), want func(error) bool) {
		t.Run(name, func(t *testing.T) {
			ours, theirs := upstreamPair(t)
			if !ours.begin() {
				t.Fatal("a fresh connection is over")
			}
			_, _ = theirs.Write([]byte("last"))
			leave(theirs)
			eventually(t, "the watcher tells of the end", func() bool {
				ours.mu.Lock()
				defer ours.mu.Unlock()
				return ours.over
			})
			late := time.AfterFunc(patience, func() { _ = ours.Close() })
			_ = ours.Conn.(attendant).attend(func() bool {
				_, err := ours.Read(make([]byte, 100))
				return err == nil || err == errNothing
			})
			if !late.Stop() {
				t.Fatal("the wait does not end")
			}
			if !ours.end(ours) {
				t.Error("end does not tell that the connection is over")
			}
			if ours.begin() {
				t.Error("begin allows another wait")
			}
			_ = ours.SetReadDeadline(time.Now().Add(patience)) // in place of the test's own limit
			if _, err := io.Copy(io.Discard, ours); !want(err) {
				t.Errorf("then reads end with %v", err)
			}
		})
	}
	f("half-closed", func(c *net.TCPConn) { _ = c.CloseWrite() }, func(err error) bool { return err == nil })
	f("closed", func(c *net.TCPConn) { _ = c.Close() }, func(err error) bool { return err == nil })
	f("reset", func(c *net.TCPConn) { _, _ = c.SetLinger(0), c.Close() }, func(err error) bool { return err != nil && !isTimeout(err) })
}

// A limit and our own close end the wait, too.
func TestAttendIsEnded(t *testing.T) {
	f := func(name string, end func(*upConn), want error) {
		t.Run(name, func(t *testing.T) {
			ours, _ := upstreamPair(t)
			began := make(chan struct{})
			go func() {
				<-began
				end(ours)
			}()
			err := ours.Conn.(attendant).attend(func() bool {
				if _, err := ours.Read(make([]byte, 1)); err != errNothing {
					t.Errorf("got %v in the turn, want %v", err, errNothing)
				}
				close(began)
				return true
			})
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
	f("limit", func(c *upConn) { _ = c.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded)
	f("close", func(c *upConn) { _ = c.Close() }, net.ErrClosed)
}

// What a socket does not take is put off, in order, until settle writes it.
func TestPutOff(t *testing.T) {
	ours, theirs := directPair(t)
	client := ours.(putOff)
	client.hurry()
	var want []byte
	write := func() {
		part := bytes.Repeat([]byte{byte(rand.N(256))}, 100<<10)
		if n, err := ours.Write(part); n != len(part) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
		want = append(want, part...)
	}
	for !client.owes() {
		write()
	}
	write()
	got := make([]byte, len(want)/2)
	if _, err := io.ReadFull(theirs, got); err != nil {
		t.Fatal(err)
	}
	write() // the socket takes some now, but not before what is kept
	settled := make(chan error)
	go func() {
		err := client.settle()
		_, _ = ours.Write([]byte("behind"))
		_ = ours.Close()
		settled <- err
	}()
	rest, err := io.ReadAll(theirs)
	got = append(got, rest...)
	if err != nil || !bytes.Equal(got, append(want, "behind"...)) {
		t.Errorf("got %d bytes, %v, want %d in order", len(got), err, len(want)+len("behind"))
	}
	if err := <-settled; err != nil || client.owes() {
		t.Errorf("settle returned %v", err)
	}
}

// A write that was put off fails when it is settled.
func TestPutOffFails(t *testing.T) {
	ours, theirs := directPair(t)
	client := ours.(putOff)
	client.hurry()
	for !client.owes() {
		if _, err := ours.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = theirs.SetLinger(0), theirs.Close()
	if err := client.settle(); err == nil {
		t.Error("settle succeeded on a reset connection")
	}
}

// A streamed answer is attended while it runs, and comes whole to a client that
// lets it wait; an engine that dies behind its last bytes cuts it at once.
func TestStreamsAreAttended(t *testing.T) {
	data := tokenEvent(strings.Repeat("word ", 6000))
	event, last := chunk(data), finishEvent+doneEvent
	const events = 1000 // more than all sockets hold
	f := func(name string, end func(*engineConn), kind string) {
		t.Run(name, func(t *testing.T) {
			begin, sent := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				if c.request() == nil {
					return
				}
				c.send(streamHead, event)
				<-begin
				for range events {
					c.send(event)
				}
				close(sent)
				end(c)
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
			c := narrow(t, p.addr)
			c.send(post(chatPath, chatStream))
			resp := c.answer("POST")
			eventually(t, "the connection to the engine is attended", func() bool { return attends(p.Server) })
			close(begin)
			eventually(t, "the client's socket is full", func() bool { return !attends(p.Server) })
			select {
			case <-sent:
				t.Error("the proxy takes what the client does not")
			default:
			}
			got, err := io.ReadAll(resp.Body)
			if kind == "" && (err != nil || string(got) != strings.Repeat(data, events+1)+last) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if rec := p.recs.next(t); rec.ErrorKind != kind || kind != "" && err == nil {
				t.Errorf("got kind %q (%s), the client %v", rec.ErrorKind, rec.Error, err)
			}
		})
	}
	f("whole", func(c *engineConn) { c.send(chunk(last), lastChunk); c.gone() }, "")
	f("closed", func(c *engineConn) { _ = c.Close() }, collector.ErrTruncated)
	f("reset", func(c *engineConn) { _ = c.Conn.(*net.TCPConn).SetLinger(0) }, collector.ErrTruncated)
}

// attends says whether the one request on its way waits by attend.
func attends(s *Server) (yes bool) {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	for f := range s.flights.all {
		f.mu.Lock()
		c, ok := f.conn.(*upConn)
		f.mu.Unlock()
		if ok {
			c.mu.Lock()
			yes = yes || c.waits
			c.mu.Unlock()
		}
	}
	return yes
}

// While attend waits, the kernel acknowledges what came after the turn and not
// inside its read, and does not leave it to a timer: an engine whose small writes
// wait for acknowledgements (Nagle's algorithm) would be slowed down by that.
func TestAttendAcknowledges(t *testing.T) {
	ours, theirs := upstreamPair(t)
	conn := ours.Conn.(*stampedConn)
	segments := func(fd uintptr) uint32 {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Error(err)
			return 0
		}
		return info.Segs_out
	}
	take := func() { // all of five bytes, so that the next turn comes at once
		if _, err := theirs.Write([]byte("event")); err != nil {
			t.Error(err)
		}
		var b [5]byte
		n, err := 0, errNothing
		for i := 0; err == errNothing && i < 1e6; i++ {
			n, err = ours.Read(b[:])
		}
		if n != len(b) || err != nil {
			t.Errorf("got %d bytes, %v", n, err)
		}
	}
	for round := range 3 {
		turn, sent := 0, uint32(0)
		err := conn.attend(func() bool {
			switch turn++; turn {
			case 1: // finds nothing to read
				return true
			case 2:
				sent = segments(conn.fd)
				take()
				if now := segments(conn.fd); now != sent {
					t.Errorf("round %d: the read sent %d segments, want none", round, now-sent)
				}
				return true
			}
			if now := segments(conn.fd); now != sent+1 {
				t.Errorf("round %d: %d segments were sent after the turn, want 1", round, now-sent)
			}
			return false
		})
		if err != nil || turn != 3 {
			t.Fatalf("round %d: %d turns, %v", round, turn, err)
		}
	}
}
