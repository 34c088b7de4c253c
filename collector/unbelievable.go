package collector

import (
	"fmt"
	"strconv"
)

// limitTolerance is how many times the asked output limit a reply may have before its
// count is not believed: servers may count a token or a thought more.
const limitTolerance = 2

// unbelievable says why the server's count of a reply's tokens cannot be; "" where it can.
func unbelievable(r *Record) string {
	if r.Usage == nil {
		return ""
	}
	n := r.Usage.CompletionTokens
	if r.ResponseBytes > 0 && n > r.ResponseBytes {
		return fmt.Sprintf("%d tokens in %d bytes", n, r.ResponseBytes)
	}
	limit, err := strconv.Atoi(string(r.SamplingSent["max_tokens"]))
	if err == nil && limit > 0 && n/limitTolerance > limit {
		return fmt.Sprintf("%d tokens where at most %d were asked for", n, limit)
	}
	return ""
}

// unbelievableWarnings count the turns whose tokens cannot be, and show the first.
func (p Point) unbelievableWarnings() []string {
	n, first := 0, ""
	for _, r := range p.counted() {
		if why := unbelievable(r); why != "" {
			if n++; n == 1 {
				first = fmt.Sprintf("conversation %s turn %d: %s", r.Labels.Conversation, r.Labels.Turn, why)
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the server's token counts of %d turns cannot be (%s): do not believe this point's tokens per second", n, first)}
}
