package proxy

import (
	"net"
	"runtime"
	"testing"
	"time"
)

const platformStamps = runtime.GOOS == "linux"

// stampsOnce says whether the kernel stamps a segment on loopback: the first
// ones after stamping was switched on for the host carry no time.
func stampsOnce(t testing.TB) bool {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := withStamps(c)
	defer func() { _ = s.Close() }()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	_, _ = peer.Write(one)
	_, _ = s.Read(eight)
	st, ok := s.(stamper)
	if !ok {
		t.Fatal("the dialed connection gives no stamps")
	}
	_, ok = st.Stamp()
	return ok
}

func TestClock(t *testing.T) {
	start := time.Now()
	now := start.Add(10 * time.Millisecond)
	f := func(age, want time.Duration) {
		t.Helper()
		if got := (clock{start}).at(now, now.Add(-age).UnixNano()); got != want {
			t.Errorf("age %v: got offset %v, want %v", age, got, want)
		}
	}
	f(time.Millisecond, 9*time.Millisecond)
	f(0, 10*time.Millisecond)
	f(-time.Hour, 10*time.Millisecond) // the wall clock went back
	f(time.Hour, 0)                    // it went forward; before the start is the start
	late := clock{start.Add(-time.Minute)}
	if got, want := late.at(now, now.Add(-time.Hour).UnixNano()), time.Minute+10*time.Millisecond-maxAge; got != want {
		t.Errorf("stepped clock: got %v, want %v", got, want)
	}
}

// A stamp lies between the write and the return of the read.
func TestStampedRead(t *testing.T) {
	if !platformStamps {
		t.Skip("no kernel stamps on " + runtime.GOOS)
	}
	defer holdStamps()() // the kernel starts to stamp some time after it was asked
	eventually(t, "the kernel stamps", func() bool { return stampsOnce(t) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := withStamps(c)
	defer func() { _ = s.Close() }()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	stamps := 0
	for range 50 {
		before := time.Now().UnixNano()
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
		at, ok := s.(stamper).Stamp()
		if !ok {
			continue
		}
		stamps++
		if after := time.Now().UnixNano(); at < before || at > after {
			t.Errorf("stamp %d lies outside %d..%d", at, before, after)
		}
	}
	if stamps == 0 {
		t.Error("the kernel gave no stamp in 50 reads")
	}
	_ = s.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := s.Read(make([]byte, 8)); !isTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
	if n := testing.AllocsPerRun(100, func() {
		_ = s.SetReadDeadline(time.Time{})
		_, _ = peer.Write(one)
		_, _ = s.Read(eight)
	}); n > 0 {
		t.Errorf("got %v allocations a read, want 0", n)
	}
}

var one, eight = []byte("x"), make([]byte, 8)
