package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rampStep lies between the starts of two streams.
const rampStep = time.Millisecond

// probeGap lies between the end of a probe and the next one.
const probeGap = 4 * time.Millisecond

// carried is what of a read is kept for the next one: more than an event's mark and stamp, or the end of an answer.
const carried = 32

var overheadEnd = []byte(doneEvent + "\r\n" + lastChunk)

// overheadClient reads all streams in one thread. What it takes from an event is its stamp.
type overheadClient struct {
	poll   *poller
	conns  []*clientStream // by descriptor
	all    []*clientStream // the streams of a run, without probes
	open   int             // streams that have not ended
	begun  int             // streams whose first event has come
	errors []string

	to      unix.SockaddrInet4
	toStart int
	every   time.Duration
	next    time.Time // of the next stream's start

	probe      *clientStream
	probesLeft int
	probeAt    time.Time // when the next one starts; zero while one runs
	probeSent  int64
	probed     []time.Duration // from the write of each request to its first event

	buf [carried + 64<<10]byte
	msg unix.Msghdr
	iov unix.Iovec
	oob [8]unix.Cmsghdr
}

type clientStream struct {
	number int // -1 of the probe
	fd     int
	times  []eventTimes
	carry  [carried]byte
	kept   int
	begun  bool
	ended  bool
}

func runOverheadClient(overheadRole) error {
	runtime.LockOSThread()
	p, err := newPoller()
	if err != nil {
		return err
	}
	c := &overheadClient{poll: p}
	answer("")
	waiting := ""
	var file string
	var deadline time.Time
	for {
		ready, command := p.wait(c.act())
		for _, ev := range ready {
			if s := c.conns[ev.Fd]; s != nil {
				c.read(s)
			}
		}
		if command {
			do, ok, ended := p.command()
			if ended {
				return nil
			}
			if ok {
				waiting, file, deadline = do.Do, do.File, time.Now().Add(20*time.Second)
				if err := c.obey(do); err != nil {
					return err
				}
			}
		}
		late := !deadline.IsZero() && time.Now().After(deadline)
		switch {
		case waiting == "run" && (c.begun == len(c.all) && c.toStart == len(c.all) || late),
			waiting == "probe" && (c.probesLeft == 0 || late):
			answer(c.probed)
			waiting, c.probed = "", nil
		case waiting == "wait" && (c.open == 0 || late):
			if err := c.finish(file); err != nil {
				return err
			}
			waiting = ""
		}
	}
}

func (c *overheadClient) obey(do overheadCommand) error {
	if do.Addr != "" {
		addr, err := net.ResolveTCPAddr("tcp4", do.Addr)
		if err != nil {
			return err
		}
		c.to = unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	}
	switch do.Do {
	case "run":
		c.all, c.open, c.begun, c.toStart, c.errors = make([]*clientStream, do.Streams), do.Streams, 0, 0, nil
		c.every, c.next = do.Every, time.Now()
	case "probe":
		s, err := c.connect(-1)
		if err != nil {
			return err
		}
		c.probe, c.probesLeft, c.probeAt = s, do.Probes, time.Now()
	case "usage", "window":
		answer(usageNow())
	}
	return nil
}

// act starts what is due and returns the time until the next start; negative for none.
func (c *overheadClient) act() time.Duration {
	for c.toStart < len(c.all) {
		if wait := time.Until(c.next); wait > 0 {
			return wait
		}
		c.start()
	}
	if c.probesLeft == 0 {
		return time.Second // for the deadline
	}
	if c.probeAt.IsZero() {
		return time.Second
	}
	if wait := time.Until(c.probeAt); wait > 0 {
		return wait
	}
	c.probeAt, c.probeSent = time.Time{}, time.Now().UnixNano()
	c.send(c.probe, 1)
	return time.Second
}

// start begins the next stream.
func (c *overheadClient) start() {
	i := c.toStart
	c.toStart++
	c.next = c.next.Add(rampStep)
	s, err := c.connect(i)
	if err != nil {
		c.all[i] = &clientStream{number: i, fd: -1, ended: true}
		c.failed(c.all[i], err)
		return
	}
	s.times = make([]eventTimes, 0, int(20*time.Second/c.every))
	c.all[i] = s
	c.send(s, 1000000)
}

func (c *overheadClient) connect(number int) (*clientStream, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, &c.to)
	if err == nil {
		err = errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1), c.poll.add(fd))
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	s := &clientStream{number: number, fd: fd}
	if fd >= len(c.conns) {
		c.conns = append(c.conns, make([]*clientStream, fd+1-len(c.conns))...)
	}
	c.conns[fd] = s
	return s, nil
}

// overheadBody is a request as chat applications send it.
const overheadBody = `{"model":"meta-llama/Meta-Llama-3.1-405B-Instruct-FP8","messages":[{"role":"system","content":"You are a helpful assistant. Answer briefly, and say so where you do not know."},{"role":"user","content":"Name three rivers of Europe, and the sea that each of them flows into."}],"max_tokens":%d,"temperature":0.7,"stream":true}`

func (c *overheadClient) send(s *clientStream, tokens int) {
	request := post(chatPath, fmt.Sprintf(overheadBody, tokens), "X-Request-Id: ov-"+strconv.Itoa(s.number))
	s.begun, s.ended, s.kept = false, false, 0
	if n, errno := rawWrite(s.fd, []byte(request)); n != len(request) {
		c.failed(s, errno)
	}
}

// failed counts a stream that did not come whole.
func (c *overheadClient) failed(s *clientStream, err error) {
	c.errors = append(c.errors, fmt.Sprintf("stream %d, after %d events: %v", s.number, len(s.times), err))
	c.ended(s)
}

func (c *overheadClient) ended(s *clientStream) {
	s.ended = true
	if s.number >= 0 {
		c.open--
		if !s.begun {
			s.begun = true
			c.begun++
		}
		return
	}
	if c.probesLeft--; c.probesLeft == 0 {
		c.close(s)
		return
	}
	c.probeAt = time.Now().Add(probeGap)
}

func (c *overheadClient) close(s *clientStream) {
	if s.fd >= 0 {
		c.conns[s.fd] = nil
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

// read takes one read of a connection.
func (c *overheadClient) read(s *clientStream) {
	start := carried - s.kept
	copy(c.buf[start:carried], s.carry[:s.kept])
	c.iov.Base = &c.buf[carried]
	c.iov.SetLen(len(c.buf) - carried)
	c.msg = unix.Msghdr{Iov: &c.iov, Control: (*byte)(unsafe.Pointer(&c.oob))}
	c.msg.SetIovlen(1)
	c.msg.SetControllen(int(unsafe.Sizeof(c.oob)))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&c.msg)), 0)
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	if errno != 0 || n == 0 {
		if !s.ended {
			c.failed(s, errors.Join(io.ErrUnexpectedEOF, errOf(errno)))
		}
		c.close(s)
		return
	}
	c.take(s, c.buf[start:carried+int(n)], receiveTime(&c.oob, int(c.msg.Controllen)))
}

func errOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// take finds the events in what was read, and the end of the answer.
func (c *overheadClient) take(s *clientStream, data []byte, got int64) {
	if !s.begun && s.kept == 0 && !bytes.HasPrefix(data, []byte("HTTP/1.1 200")) {
		line, _, _ := strings.Cut(string(data), "\r\n")
		c.failed(s, fmt.Errorf("the answer begins %q", line))
		c.close(s)
		return
	}
	for {
		i := bytes.Index(data, []byte(overheadMark))
		if i < 0 || len(data) < i+len(overheadMark)+stampDigits {
			break
		}
		data = data[i+len(overheadMark):]
		sent := int64(0)
		for _, d := range data[:stampDigits] {
			sent = 10*sent + int64(d-'0')
		}
		data = data[stampDigits:]
		c.event(s, sent, got)
	}
	if bytes.HasSuffix(data, overheadEnd) {
		s.kept = 0
		c.ended(s)
		return
	}
	s.kept = copy(s.carry[:], data[max(0, len(data)-carried):])
}

func (c *overheadClient) event(s *clientStream, sent, got int64) {
	if s.number >= 0 {
		s.times = append(s.times, eventTimes{sent, got})
	}
	if s.begun {
		return
	}
	s.begun = true
	if s.number >= 0 {
		c.begun++
	} else if got > 0 {
		c.probed = append(c.probed, time.Duration(got-c.probeSent))
	}
}
