package live

import (
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"spectap/collector"
)

// size sums the capacities of all that a value reaches, in bytes.
func size(v reflect.Value, seen map[uintptr]bool) (n uintptr) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return 0
		}
		seen[v.Pointer()] = true
		return v.Type().Elem().Size() + size(v.Elem(), seen)
	case reflect.Slice:
		n = uintptr(v.Cap()) * v.Type().Elem().Size()
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			n += size(v.Index(i), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += size(v.Field(i), seen)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			n += key.Type().Size() + size(key, seen) + v.Type().Elem().Size() + size(v.MapIndex(key), seen)
		}
	case reflect.String:
		n = uintptr(v.Len())
	}
	return n
}

// A million Records with new models, points and kinds leave the board as large
// as a few thousand do.
func TestBoundedMemory(t *testing.T) {
	b := newBoard()
	records := make([]*collector.Record, 4096)
	for i := range records {
		text := strconv.Itoa(i)
		records[i] = &collector.Record{
			Start: start, Model: "model " + text, Route: collector.RouteChat, Stream: true, ErrorKind: "kind " + text, SpecMissing: "reason " + text,
			Labels: collector.Labels{Point: "point " + text}, FirstOutput: collector.At(time.Duration(i) * time.Millisecond),
		}
		if i%64 == 0 {
			records[i].Spec = &collector.Spec{Steps: 1, Accepted: make([]int, i%100)}
		}
	}
	emit := func(from, to int) {
		for i := from; i < to; i++ {
			b.add(time.Duration(i)*time.Millisecond, records[i%len(records)])
		}
	}
	const texts = recentRows * 2 * 8 // numbers grow by a few digits
	emit(0, 10_000)
	before := size(reflect.ValueOf(b), map[uintptr]bool{})
	emit(10_000, 1_000_000)
	after := size(reflect.ValueOf(b), map[uintptr]bool{})
	if after > before+texts || after > 2<<20 {
		t.Errorf("the board grew from %d to %d bytes", before, after)
	}
	if before < 100_000 {
		t.Errorf("the board has only %d bytes: what is measured here is not the board", before)
	}
	t.Logf("the board has %d bytes", after)
	runtime.KeepAlive(b)
}
