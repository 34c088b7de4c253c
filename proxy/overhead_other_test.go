//go:build !linux

package proxy

// runOverheadRole: BenchmarkOverhead needs Linux's epoll and receive times.
func runOverheadRole() (code int, ok bool) { return 0, false }
