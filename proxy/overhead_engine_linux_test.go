package proxy

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What an event of the overhead engine is made of: a chat chunk as vLLM sends
// it, about 290 bytes without usage, whose text is the time of its write in wall-clock
// nanoseconds.
const (
	overheadOpen = `data: {"id":"chatcmpl-a3f2b1c4d5e64f7081928a3b4c5d6e7f","object":"chat.completion.chunk","created":1790000000,"model":"meta-llama/Meta-Llama-3.1-405B-Instruct-FP8","choices":[`
	overheadMark = `"content":" `
	overheadText = `{"index":0,"delta":{` + overheadMark
	overheadRest = `"},"logprobs":null,"finish_reason":null,"token_ids":null}]`
	overheadLast = `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]`
	stampDigits  = 19
)

// overheadEngine is a paced engine in one thread: a wheel of one slot a stream,
// that turns once in the interval.
type overheadEngine struct {
	poll   *poller
	listen int
	conns  map[int32]*overheadStream

	slots []*overheadStream
	live  int           // slots in use
	step  time.Duration // between two slots
	base  time.Time
	tick  int // the next slot is due at base + tick·step
	end   bool
	late  []time.Duration
	sent  int // events, without those of probes
	out   []byte
	event []byte
}

// overheadStream is one connection and the answer that runs on it.
type overheadStream struct {
	fd                int
	in                []byte
	tokens            int
	usage, continuous bool
	probe             bool
}

func runOverheadEngine(overheadRole) error {
	runtime.LockOSThread()
	p, err := newPoller()
	if err != nil {
		return err
	}
	e := &overheadEngine{poll: p, conns: map[int32]*overheadStream{}, base: time.Now(), step: time.Second, slots: make([]*overheadStream, 1)}
	var port int
	if e.listen, port, err = rawListen(); err != nil {
		return err
	}
	if err := p.add(e.listen); err != nil {
		return err
	}
	answer("127.0.0.1:" + strconv.Itoa(port))
	for {
		e.fire()
		ready, command := p.wait(e.untilNext())
		for _, ev := range ready {
			if int(ev.Fd) == e.listen {
				e.accept()
			} else {
				e.read(e.conns[ev.Fd])
			}
		}
		if command && e.obey() {
			return nil
		}
	}
}

func rawListen() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, 0, err
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return 0, 0, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, 0, err
	}
	return fd, sa.(*unix.SockaddrInet4).Port, nil
}

// obey takes one command; true is the end.
func (e *overheadEngine) obey() (ended bool) {
	c, ok, ended := e.poll.command()
	switch {
	case ended:
		return true
	case !ok:
	case c.Do == "run":
		e.slots, e.live, e.end = make([]*overheadStream, c.Streams), 0, false
		e.step, e.base, e.tick = c.Every/time.Duration(c.Streams), time.Now(), 0
		e.late, e.sent = make([]time.Duration, 0, 1<<20), 0
		answer("")
	case c.Do == "end":
		e.end = true
		answer("")
	case c.Do == "usage", c.Do == "window":
		u := usageNow()
		slices.Sort(e.late)
		u.LateP50, u.LateP99, u.LateMax, u.Sent = quantile(e.late, 0.5), quantile(e.late, 0.99), quantile(e.late, 1), e.sent
		e.late = e.late[:0]
		answer(u)
	}
	return false
}

func (e *overheadEngine) accept() {
	for {
		fd, _, err := unix.Accept4(e.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		e.conns[int32(fd)] = &overheadStream{fd: fd}
		if err := e.poll.add(fd); err != nil {
			fmt.Fprintln(os.Stderr, "engine:", err)
		}
	}
}

// read takes what a client sent; a whole request is answered at once.
func (e *overheadEngine) read(s *overheadStream) {
	if s == nil {
		return
	}
	var b [16 << 10]byte
	n, errno := rawRead(s.fd, b[:])
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	if errno != 0 || n == 0 {
		e.drop(s)
		return
	}
	s.in = append(s.in, b[:n]...)
	head, rest, ok := bytes.Cut(s.in, []byte("\r\n\r\n"))
	if !ok || len(rest) < contentLength(head) {
		return
	}
	s.usage, s.continuous = bytes.Contains(rest, []byte(`"include_usage":true`)), bytes.Contains(rest, []byte(`"continuous_usage_stats":true`))
	s.probe = bytes.Contains(rest, []byte(`"max_tokens":1,`))
	s.in, s.tokens = s.in[:0], 0
	e.write(s, []byte(streamHead))
	e.send(s)
	if s.probe {
		e.finish(s)
		return
	}
	if i := slices.Index(e.slots, nil); i >= 0 {
		e.slots[i] = s
		e.live++
	}
}

func contentLength(head []byte) int {
	i := bytes.Index(bytes.ToLower(head), []byte("content-length:"))
	if i < 0 {
		return 0
	}
	value, _, _ := bytes.Cut(head[i+len("content-length:"):], []byte("\r\n"))
	n, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
	return n
}

func (e *overheadEngine) drop(s *overheadStream) {
	if i := slices.Index(e.slots, s); i >= 0 {
		e.slots[i] = nil
		e.live--
	}
	delete(e.conns, int32(s.fd))
	_ = unix.Close(s.fd)
}

// fire sends the events that are due.
func (e *overheadEngine) fire() {
	for range 64 { // then requests get their turn
		if e.live == 0 {
			return
		}
		due := e.base.Add(time.Duration(e.tick) * e.step)
		late := time.Since(due)
		if late < 0 {
			return
		}
		slot := e.tick % len(e.slots)
		e.tick++
		s := e.slots[slot]
		switch {
		case s == nil:
		case e.end:
			e.slots[slot] = nil
			e.live--
			e.finish(s)
		default:
			e.late = append(e.late, late)
			e.send(s)
		}
	}
}

// untilNext is the time until a stream has an event due; negative for none.
func (e *overheadEngine) untilNext() time.Duration {
	if e.live == 0 {
		return -1
	}
	for e.slots[e.tick%len(e.slots)] == nil {
		e.tick++
	}
	return max(0, time.Until(e.base.Add(time.Duration(e.tick)*e.step)))
}

// send writes one event with the time of its write.
func (e *overheadEngine) send(s *overheadStream) {
	s.tokens++
	if !s.probe {
		e.sent++
	}
	b := append(append(e.event[:0], overheadOpen...), overheadText...)
	at := len(b)
	b = append(b, "0000000000000000000"...)
	b = append(b, overheadRest...)
	if s.continuous {
		b = appendUsage(b, s.tokens)
	}
	b = append(b, "}\n\n"...)
	e.event = b
	strconv.AppendInt(b[at:at], time.Now().UnixNano(), 10)
	e.out = appendChunk(e.out[:0], b)
	e.write(s, e.out)
}

// finish writes the end of an answer.
func (e *overheadEngine) finish(s *overheadStream) {
	b := append(append(e.event[:0], overheadOpen...), overheadLast...)
	if s.continuous {
		b = appendUsage(b, s.tokens)
	}
	e.event = append(b, "}\n\n"...)
	e.out = appendChunk(e.out[:0], e.event)
	if s.usage {
		e.event = append(append(appendUsage(append(e.event[:0], overheadOpen+"]"...), s.tokens), `,"system_fingerprint":"vllm-0.29.0-1a2b3c4d"`...), "}\n\n"...)
		e.out = appendChunk(e.out, e.event)
	}
	e.out = append(appendChunk(e.out, []byte(doneEvent)), lastChunk...)
	e.write(s, e.out)
}

func appendUsage(b []byte, tokens int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":21,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(21+tokens), 10)
	b = append(b, `,"completion_tokens":`...)
	return append(strconv.AppendInt(b, int64(tokens), 10), '}')
}

func appendChunk(dst, data []byte) []byte {
	dst = append(strconv.AppendInt(dst, int64(len(data)), 16), "\r\n"...)
	return append(append(dst, data...), "\r\n"...)
}

// write sends bytes whole, or gives the connection up: a full socket buffer is a reader that stands still.
func (e *overheadEngine) write(s *overheadStream, b []byte) {
	if n, errno := rawWrite(s.fd, b); n != len(b) {
		if errno != unix.EPIPE && errno != unix.ECONNRESET {
			fmt.Fprintln(os.Stderr, "engine: a write took", n, "of", len(b), "bytes:", errno)
		}
		e.drop(s)
	}
}

// quantile of sorted values, the lower one between two; 0 of none.
func quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
