package columns

// Row is a Record in columns: one comment a column, which the README's table is
// made of. Columns are added at the end of their group; what a column means
// changes only with the number in Schema. A column is null where the Record does
// not know, an empty text included. Units are in the names: _s seconds from
// start_time, _tokens tokens, _bytes bytes.
type Row struct {
	// id of the record, made by spectap; in several rows only if its record is in several files, as in a shard's and the merged ones
	ID string `parquet:"id"`
	// the client's X-Request-ID, at most 256 bytes of it
	RequestID string `parquet:"request_id,optional"`
	// id in the engine's answer
	ResponseID string `parquet:"response_id,optional"`
	// as it was sent to the engine
	Traceparent string `parquet:"traceparent,optional"`

	// the sweep, or the start of a proxy: by the request's label, else by the run line above the record
	Run string `parquet:"run,optional,dict"`
	// temperature and concurrency, as `t0_c32`: by the label, else by the run line
	Point string `parquet:"point,optional,dict"`
	// data set of the run line
	Dataset string `parquet:"dataset,optional,dict"`
	// concurrency of the run line
	Concurrency *int64 `parquet:"concurrency,optional"`
	// conversation that the request is a turn of, at most 256 bytes of its name
	Conversation string `parquet:"conversation,optional"`
	// the data set's id of the question
	Question string `parquet:"question,optional"`
	// category of the question
	Category string `parquet:"category,optional,dict"`
	// turn of the conversation, from 0
	Turn *int64 `parquet:"turn,optional"`
	// what named the conversation: `baggage`, `x-correlation-id`, `x-session-affinity`
	NamedBy string `parquet:"named_by,optional,dict"`
	// why the request is in no figure, as `warm_up`
	SetApart string `parquet:"set_apart,optional,dict"`
	// conversations that begin per second, of the run line; null: no open loop
	RequestRate *float64 `parquet:"request_rate,optional"`
	// how they do: `constant`, `poisson`
	Arrivals string `parquet:"arrivals,optional,dict"`
	// when the conversation was to begin, from start_time: negative where its first turn was late; null for later turns, which follow the end of the turn before
	Intended *float64 `parquet:"intended_s,optional"`
	// which of the runs of its point, from 1; null without a run line
	Repeat *int64 `parquet:"repeat,optional"`

	// when the request was fully read, UTC
	StartTime *int64 `parquet:"start_time,timestamp(microsecond:utc)"`
	// day of start_time, UTC
	StartDay *int32 `parquet:"start_day,date"`
	// the request was handed to the engine's socket
	UpstreamWritten *float64 `parquet:"upstream_written_s,optional"`
	// the answer's head came
	ResponseHead *float64 `parquet:"response_head_s,optional"`
	// time to first token: the first event that carried output
	TTFT *float64 `parquet:"ttft_s,optional"`
	// the answer's last byte came
	LastByte *float64 `parquet:"last_byte_s,optional"`
	// the answer was passed on
	Done *float64 `parquet:"done_s,optional"`
	// (last_byte_s - ttft_s) / (completion_tokens - 1) of a stream of one choice that succeeded
	TimePerOutputToken *float64 `parquet:"time_per_output_token_s,optional"`
	// from the arrival of a read to the write of it, median
	ResidenceP50 *float64 `parquet:"residence_p50_s,optional"`
	// the same, the longest
	ResidenceMax *float64 `parquet:"residence_max_s,optional"`
	// where the times of events come from: `kernel`, `user`, `mixed`
	Stamps string `parquet:"stamps,optional,dict"`

	// HTTP method
	Method string `parquet:"method,optional,dict"`
	// without the query string, at most 2 KiB of it
	Path string `parquet:"path,optional,dict"`
	// `chat`, `completions`, `responses`, `messages`, `other`; null: no model call
	Route string `parquet:"route,optional,dict"`
	// by the answer, else by the request, at most 256 bytes of it
	Model string `parquet:"model,optional,dict"`
	// `vllm`, `sglang`, `trtllm`, `llamacpp`
	Engine string `parquet:"engine,optional,dict"`
	// version of the run line
	EngineVersion string `parquet:"engine_version,optional,dict"`
	// the answer was asked for as a stream
	Stream bool `parquet:"stream"`

	// HTTP status; null where no answer came
	Status *int64 `parquet:"status,optional"`
	// null: the request succeeded; else as in the table of failures
	ErrorKind string `parquet:"error_kind,optional,dict"`
	// in words of spectap's own, or type and code of the engine's error
	Error string `parquet:"error,optional,dict"`
	// times that the request was sent again on a fresh connection
	Retries int64 `parquet:"retries"`
	// the stream came to its own end, as `[DONE]`
	SawDone bool `parquet:"saw_done"`
	// of the first choice that has one
	FinishReason string `parquet:"finish_reason,optional,dict"`
	// `token:ID` or `string`: what stopped the reply
	StopReason string `parquet:"stop_reason,optional,dict"`
	// data events of the stream
	Events int64 `parquet:"events"`
	// body of the request as the client sent it
	RequestBytes int64 `parquet:"request_bytes"`
	// body of the answer as the engine sent it
	ResponseBytes int64 `parquet:"response_bytes"`

	// by the engine's usage, as the next three
	PromptTokens *int64 `parquet:"prompt_tokens,optional"`
	// emitted tokens, EOS included
	CompletionTokens *int64 `parquet:"completion_tokens,optional"`
	// tokens of the prompt that came from the prefix cache
	CachedTokens *int64 `parquet:"cached_tokens,optional"`
	// tokens of the reply that were reasoning
	ReasoningTokens *int64 `parquet:"reasoning_tokens,optional"`

	// why there is no statistics block, and with it null in the columns up to spec_derived
	SpecMissing string `parquet:"spec_missing,optional,dict"`
	// decode steps that verified drafts
	VerifySteps *int64 `parquet:"verify_steps,optional"`
	// accepted draft tokens
	AcceptedTokens *int64 `parquet:"accepted_tokens,optional"`
	// proposed draft tokens
	DraftedTokens *int64 `parquet:"drafted_tokens,optional"`
	// drafts of a step as configured; null where the engine does not say
	DraftLength *int64 `parquet:"draft_length_tokens,optional"`
	// verify steps by accepted drafts: the first element counts steps that accepted none
	Accepted []int64 `parquet:"accepted_histogram_steps,optional,list"`
	// accepted drafts of each verify step, where the engine lists them
	PerStepAccepted []int64 `parquet:"per_step_accepted_tokens,optional,list"`
	// proposed drafts of each verify step
	PerStepDrafted []int64 `parquet:"per_step_drafted_tokens,optional,list"`
	// members of the block that were computed, not reported
	SpecDerived []string `parquet:"spec_derived,optional,list"`

	// chunks as a client counts them, which acceptance_rate.json is made of; null, as the columns up to cut_tokens, where the request failed or neither block nor events say
	ClientChunks *int64 `parquet:"client_chunks,optional"`
	// tokens of these chunks, without EOS
	ClientTokens *int64 `parquet:"client_chunk_tokens,optional"`
	// acceptance length of the client view, client_chunk_tokens / client_chunks; over several requests divide the sums
	ClientAL *float64 `parquet:"client_al,optional"`
	// what the chunks are known from: `exact`, `events`, `events_split`, `block_sums`, `block`
	ClientSource string `parquet:"client_source,optional,dict"`
	// chunks of the server view: one of 1 for the prefill, one of 1 + accepted for each verify step
	ServerChunks *int64 `parquet:"server_chunks,optional"`
	// tokens of these chunks
	ServerTokens *int64 `parquet:"server_chunk_tokens,optional"`
	// acceptance length of the server view, server_chunk_tokens / server_chunks
	ServerAL *float64 `parquet:"server_al,optional"`
	// decode steps without drafts
	DraftlessSteps *int64 `parquet:"draftless_steps,optional"`
	// tokens that the last step promised and the reply does not have
	CutTokens *int64 `parquet:"cut_tokens,optional"`

	// sampling as sent to the engine, as the columns up to ignore_eos; null where it was not sent, or is no number
	Temperature *float64 `parquet:"temperature,optional"`
	// top_p as sent
	TopP *float64 `parquet:"top_p,optional"`
	// top_k as sent
	TopK *int64 `parquet:"top_k,optional"`
	// min_p as sent
	MinP *float64 `parquet:"min_p,optional"`
	// repetition_penalty as sent
	RepetitionPenalty *float64 `parquet:"repetition_penalty,optional"`
	// presence_penalty as sent
	PresencePenalty *float64 `parquet:"presence_penalty,optional"`
	// frequency_penalty as sent
	FrequencyPenalty *float64 `parquet:"frequency_penalty,optional"`
	// seed as sent
	Seed *int64 `parquet:"seed,optional"`
	// max_completion_tokens, else max_tokens, as sent
	MaxTokens *int64 `parquet:"max_tokens,optional"`
	// min_tokens as sent
	MinTokens *int64 `parquet:"min_tokens,optional"`
	// choices as sent
	Choices *int64 `parquet:"n,optional"`
	// ignore_eos as sent
	IgnoreEOS *bool `parquet:"ignore_eos,optional"`
	// all sampling members that were sent, a JSON object, numbers as spelled
	SamplingSent string `parquet:"sampling_sent_json,optional,dict"`
	// all that the client set
	SamplingClient string `parquet:"sampling_client_json,optional,dict"`
	// names of the members that spectap added or changed
	Injected []string `parquet:"injected,optional,list"`

	// when each event that carried output came
	ChunkTimes []float64 `parquet:"chunk_s,optional,list"`
	// tokens of each of these events, 0 where one does not say; null where none does
	ChunkTokens []int64 `parquet:"chunk_tokens,optional,list"`
	// index of the choice of each; null where all are the first
	ChunkChoices []int64 `parquet:"chunk_choice,optional,list"`
	// each came in one read with the event before it, so that the time between them is no measurement; null where none did
	ChunkShared []bool `parquet:"chunk_shared,optional,list"`

	// hash of the first user message, only with `SPECTAP_HASH_USER` or a question file
	UserHash string `parquet:"user_hash,optional"`
	// headers that `SPECTAP_CAPTURE` named, a JSON object
	Headers string `parquet:"captured_headers_json,optional"`
	// last user message, only where texts were kept
	Prompt string `parquet:"prompt,optional"`
	// content of the first choice, only where texts were kept
	Reply string `parquet:"reply,optional"`
	// reasoning of the first choice, only where texts were kept
	Reasoning string `parquet:"reasoning,optional"`
	// what a reader of the record must know
	Warnings []string `parquet:"warnings,optional,list"`

	// records file, as named on the command line
	SourceFile string `parquet:"source_file,dict"`
	// line of that file, from 1
	SourceLine int64 `parquet:"source_line,delta"`
}
