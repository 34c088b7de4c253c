//go:build !linux

package proxy

import "net"

// watcher does nothing on this platform: that a client left is noticed when a
// write to it fails.
type watcher struct{}

func newWatcher() (*watcher, error) { return &watcher{}, nil }

func (w *watcher) arm(net.Conn, leaver) uint64 { return 0 }

func (w *watcher) forget(uint64) {}

func (w *watcher) disarm(net.Conn, uint64) {}

func (w *watcher) close() {}

// pendingClose cannot look without reading here; the guarded retry covers a stale connection.
func pendingClose(net.Conn) bool { return false }

// untaken cannot be told here; the time since the request decides.
func untaken(net.Conn, int) bool { return false }
