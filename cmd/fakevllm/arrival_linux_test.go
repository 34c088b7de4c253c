package main

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

// What waited in the kernel arrived before it was read.
func TestArrival(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := stampArrivals(plain)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "ab"); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := make([]byte, 1)
	for range 2 {
		if n, err := c.Read(one); n != 1 || err != nil {
			t.Fatalf("Read: got %d, %v; want 1 byte", n, err)
		}
		if at := c.(fakevllm.Stamped).Arrived(); at.IsZero() || at.After(sent) {
			t.Errorf("got arrival %v, want one before %v, when it was sent already", at, sent)
		}
	}
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.Read(one); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read past its deadline: got %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	client.Close()
	if _, err := c.Read(one); err != io.EOF {
		t.Errorf("Read after the end: got %v, want EOF", err)
	}
}
