package report

import (
	"spectap/collector/estimate"
)

// maxClusters is how many clusters an interval is drawn from at most. More
// conversations are added up to as many groups: an interval over groups of
// independent conversations is one over conversations, and a page is made in time.
const maxClusters = 2000

// grouped adds the parts up to maxClusters groups, every one of conversations from
// all over the data set.
func grouped(parts []estimate.Part) []estimate.Part {
	if len(parts) <= maxClusters {
		return parts
	}
	groups := make([]estimate.Part, maxClusters)
	for i, p := range parts {
		groups[i%maxClusters].Num += p.Num
		groups[i%maxClusters].Den += p.Den
	}
	return groups
}

// parts are what each conversation gives to the category's mean.
func (c category) parts() []estimate.Part {
	parts := make([]estimate.Part, len(c.al))
	for i, v := range c.al {
		parts[i] = estimate.Part{Num: v, Den: 1}
	}
	return parts
}
