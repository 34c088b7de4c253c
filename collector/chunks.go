package collector

// HistogramLengths gives the chunk lengths of a turn in the server's view: one
// chunk of 1 for the prefill token and one of j+1 for every verify step that
// accepted exactly j drafts (accepted[j] steps). Decode steps without drafts are
// not in it, and a last step that was cut counts in full.
func HistogramLengths(accepted []int) []int {
	n := 1
	for _, steps := range accepted {
		n += max(steps, 0)
	}
	lengths := make([]int, 1, n)
	lengths[0] = 1
	for j, steps := range accepted {
		for range steps {
			lengths = append(lengths, j+1)
		}
	}
	return lengths
}
