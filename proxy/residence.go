package proxy

import (
	"math"
	"slices"
	"time"

	"spectap/collector"
)

// residences are the times from the arrival of each read to our write of it.
// Four bytes each are enough for the median; the maximum is kept apart.
type residences struct {
	ns   []uint32 // those above 4.29 s as 4.29 s
	most time.Duration
}

func (r *residences) add(d time.Duration) {
	r.ns = append(r.ns, uint32(min(max(d, 0), math.MaxUint32)))
	r.most = max(r.most, d)
}

// spread returns the median (the lower one of an even number) and the maximum.
func (r *residences) spread() (p50, most collector.Moment) {
	if len(r.ns) == 0 {
		return
	}
	slices.Sort(r.ns)
	return collector.At(time.Duration(r.ns[(len(r.ns)-1)/2])), collector.At(r.most)
}

// residences returns empty ones, with the room of an earlier answer.
func (s *Server) residences() *residences {
	if r, ok := s.stays.Get().(*residences); ok {
		return r
	}
	return new(residences)
}

func (s *Server) freeResidences(r *residences) {
	*r = residences{ns: r.ns[:0]}
	if cap(r.ns) <= 1<<16 {
		s.stays.Put(r)
	}
}
