package proxy

import (
	"bytes"
	"encoding/json"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller waits for sockets and for commands on standard input, in one thread
// and without Go's netpoller: the load generator has to cost little.
type poller struct {
	ep     int
	events [256]unix.EpollEvent
	pollfd [2]unix.PollFd
	line   []byte // of standard input
}

func newPoller() (*poller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	return &poller{ep: ep, pollfd: [2]unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}, {Fd: 0, Events: unix.POLLIN}}}, nil
}

func (p *poller) add(fd int) error {
	return unix.EpollCtl(p.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// wait returns the sockets that can be read and whether a command stands on
// standard input, after limit at the latest; a negative limit is none.
func (p *poller) wait(limit time.Duration) (ready []unix.EpollEvent, command bool) {
	var ts *unix.Timespec
	if limit >= 0 {
		t := unix.NsecToTimespec(int64(limit))
		ts = &t
	}
	n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p.pollfd)), 2, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	if n == 0 || int(n) < 0 {
		return nil, false
	}
	command = p.pollfd[1].Revents != 0
	if p.pollfd[0].Revents == 0 {
		return nil, command
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil, command
	}
	return p.events[:n], command
}

// command reads standard input; ok is false until a line is whole, ended says that no more will come.
func (p *poller) command() (c overheadCommand, ok, ended bool) {
	var b [4096]byte
	n, err := unix.Read(0, b[:])
	if n <= 0 && err != unix.EINTR {
		return c, false, true
	}
	p.line = append(p.line, b[:max(n, 0)]...)
	line, rest, ok := bytes.Cut(p.line, []byte{'\n'})
	if !ok {
		return c, false, false
	}
	if err := json.Unmarshal(line, &c); err != nil {
		panic(err)
	}
	p.line = append([]byte(nil), rest...)
	return c, true, false
}

func rawRead(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func rawWrite(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}
