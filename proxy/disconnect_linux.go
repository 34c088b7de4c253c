package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher notices that a client closed its connection while its answer is still
// on the way. fasthttp does not read the connection meanwhile, so without it
// two writes must fail first. It also tells of the end of upstream connections
// (attended).
//
//	client socket ──RDHUP──▶ own epoll ──readable──▶ Go's netpoller ──▶ run ──▶ flight.clientGone
//
// The own epoll instance is one file in Go's netpoller, so no thread blocks. An
// event carries a number that is never used twice: descriptors are reused.
type watcher struct {
	file *os.File // the epoll instance
	raw  syscall.RawConn
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	last    uint64
	watched map[uint64]leaver
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll instance: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cannot set epoll instance non-blocking: %w", err)
	}
	w := &watcher{file: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{}), watched: make(map[uint64]leaver)}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("cannot watch epoll instance: %w", err)
	}
	go w.run()
	return w, nil
}

// arm watches a connection until disarm, or until its peer has left, which is told
// once. A half-closed connection counts as left, as it does for uvicorn and
// net/http. 0 is no watch.
func (w *watcher) arm(c net.Conn, who leaver) (id uint64) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	w.mu.Lock()
	w.last++
	id = w.last
	w.watched[id] = who
	w.mu.Unlock()
	if w.control(raw, unix.EPOLL_CTL_ADD, id) != nil {
		w.forget(id)
		return 0
	}
	return id
}

// disarm ends the watch. The flight's own lock keeps a callback that already
// runs from closing an upstream connection that was released.
func (w *watcher) disarm(c net.Conn, id uint64) {
	if id == 0 {
		return
	}
	w.forget(id)
	if raw, err := c.(syscall.Conn).SyscallConn(); err == nil {
		_ = w.control(raw, unix.EPOLL_CTL_DEL, id) // fails on a closed socket, which the kernel removed itself
	}
}

func (w *watcher) control(raw syscall.RawConn, op int, id uint64) error {
	var ctlErr, epErr error
	err := raw.Control(func(fd uintptr) {
		ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(id), Pad: int32(id >> 32)}
		epErr = w.raw.Control(func(ep uintptr) { ctlErr = unix.EpollCtl(int(ep), op, int(fd), &ev) })
	})
	return errors.Join(err, epErr, ctlErr)
}

func (w *watcher) forget(id uint64) {
	w.mu.Lock()
	delete(w.watched, id)
	w.mu.Unlock()
}

// run tells of each peer that left, until close.
func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := w.raw.Read(func(ep uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(ep), events, 0)
			return n > 0 || (err != nil && err != unix.EINTR)
		})
		if err != nil {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			w.mu.Lock()
			who := w.watched[id]
			delete(w.watched, id)
			w.mu.Unlock()
			if who != nil {
				who.peerLeft()
			}
		}
	}
}

// close ends run and waits for it.
func (w *watcher) close() {
	_ = w.file.Close()
	<-w.done
}

// pendingClose says whether an idle connection cannot carry another request:
// the peer closed it, or sent bytes that nobody asked for.
func pendingClose(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var peek error
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, peek = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err != nil || (peek != unix.EAGAIN && peek != unix.EINTR)
}
