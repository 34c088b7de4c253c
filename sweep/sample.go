package sweep

// The ways to choose n of a data set's conversations (Config.Select).
const (
	SelectAuto       = "auto"       // as specdec_bench does for the data set
	SelectStratified = "stratified" // round robin over the categories
	SelectFirst      = "first"
)

// first returns the first n of rows row numbers.
func first(rows, n int) []int {
	chosen := make([]int, 0, min(rows, n))
	for i := range min(rows, n) {
		chosen = append(chosen, i)
	}
	return chosen
}

// stratified returns n row numbers, round robin over the categories in the
// order of their first appearance, and in that interleaved order, as
// specdec_bench's datasets/speed.py does. With n at or above the number of
// rows, or a single category, it is the first n in file order. As there, n = 0
// gives all rows: NewPlan refuses it.
func stratified(categories []string, n int) []int {
	var names []string
	groups := make(map[string][]int)
	for i, c := range categories {
		if _, ok := groups[c]; !ok {
			names = append(names, c)
		}
		groups[c] = append(groups[c], i)
	}
	if n >= len(categories) || len(names) < 2 {
		return first(len(categories), n)
	}
	var chosen []int
	for position := 0; len(chosen) < len(categories); position++ {
		for _, name := range names {
			if position >= len(groups[name]) {
				continue
			}
			if chosen = append(chosen, groups[name][position]); len(chosen) == n {
				return chosen
			}
		}
	}
	return chosen
}
