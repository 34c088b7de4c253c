package collector

// streamChunks makes of a stream's events what specdec_bench's vLLM wrapper makes
// of them: the chunk lengths and the time points of a turn. counts are the tokens
// seen so far after each event, arrivals the times of the events in seconds;
// eosEnded says that the very last token is the tokenizer's EOS.
//
//	counts    1    4    6    7 (EOS)
//	times  10.0 10.5 11.0 11.5 12.0
//	strike             ^^^^          lengths 1 3 2, times 10.0 10.5 11.0 12.0
//
// EOS is never part of a chunk. An event without a chunk is struck out by its
// index, but the times have the start in front: as in vllm.py, the time that
// vanishes is that of the event before.
func streamChunks(counts []int, start float64, arrivals []float64, eosEnded bool) (lengths []int, times []float64) {
	lengths = make([]int, 0, len(counts))
	times = make([]float64, 0, len(arrivals)+1)
	seen := 0
	at := start
	for i, count := range counts {
		length := count - seen
		seen = max(seen, count)
		if i == len(counts)-1 && eosEnded {
			length--
		}
		if length > 0 {
			lengths = append(lengths, length)
			times = append(times, at)
		}
		at = arrivals[i]
	}
	return lengths, append(times, at)
}
