package proxy

// GCPercent is the heap's growth, in percent of what lives, at which a process
// that only runs a Server should collect garbage (runtime/debug.SetGCPercent).
// A stream allocates when it begins and hardly while it lives, so that collecting
// sooner than Go's 100 costs next to nothing, and garbage is a good part of the
// memory of a stream. BenchmarkOverhead measures with it.
const GCPercent = 50
