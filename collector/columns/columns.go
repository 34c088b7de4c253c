// Package columns writes Records as Parquet: a Row a Record, flat, so that DuckDB,
// Spark or ClickHouse can query the records files of a fleet. It opens no file and
// reads no clock.
//
// Start with Row, the schema, and Of, which makes it of a Record. Writer writes rows.
package columns

import (
	"encoding/json"
	"math"
	"strconv"

	"spectap/collector"
)

// Schema is the version of the columns. It stands in a file's key-value metadata
// under SchemaKey; the number goes up when a column changes its meaning or goes.
const (
	Schema    = "spectap.columns/1"
	SchemaKey = "spectap.schema"
)

const secondsPerDay = 24 * 60 * 60

// Origin is where a Record comes from.
type Origin struct {
	File  string
	Line  int
	Run   *collector.Run // the run line above it; nil: there is none
	Rules collector.LengthRules
}

// Of returns the Row of a Record. It shares the Record's texts, not its lists.
func Of(from Origin, r *collector.Record) (Row, error) {
	row := Row{
		ID: r.ID, RequestID: r.RequestID, ResponseID: r.ResponseID, Traceparent: r.Traceparent,
		Run: r.Labels.Run, Point: r.Labels.Point, Conversation: r.Labels.Conversation, Question: r.Labels.Question,
		Category: r.Labels.Category, NamedBy: r.NamedBy, SetApart: r.SetApart,
		UpstreamWritten: seconds(r.UpstreamWritten), ResponseHead: seconds(r.ResponseHead), TTFT: seconds(r.FirstOutput),
		LastByte: seconds(r.LastByte), Done: seconds(r.Done), ResidenceP50: seconds(r.ResidenceP50), ResidenceMax: seconds(r.ResidenceMax),
		Stamps: r.Stamps, Method: r.Method, Path: r.Path, Route: r.Route, Model: r.Model, Engine: r.Engine, Stream: r.Stream,
		Status: known(r.Status, r.Status != 0), ErrorKind: r.ErrorKind, Error: r.Error, Retries: int64(r.Retries), SawDone: r.SawDone,
		FinishReason: r.Finish, StopReason: r.StopReason, Events: int64(r.Events),
		RequestBytes: int64(r.RequestBytes), ResponseBytes: int64(r.ResponseBytes), SpecMissing: r.SpecMissing,
		Injected: r.Injected, UserHash: r.UserHash, Prompt: r.Prompt, Reply: r.Reply, Reasoning: r.Reasoning, Warnings: r.Warnings,
		Turn: known(r.Labels.Turn, r.Labels.HasTurn), SourceFile: from.File, SourceLine: int64(from.Line),
	}
	if !r.Start.IsZero() {
		start, day := r.Start.UnixMicro(), int32(math.Floor(float64(r.Start.Unix())/secondsPerDay))
		row.StartTime, row.StartDay = &start, &day
	}
	if per, ok := r.TimePerOutputToken(); ok {
		row.TimePerOutputToken = seconds(collector.At(per))
	}
	if u := r.Usage; u != nil {
		row.PromptTokens, row.CompletionTokens = known(u.PromptTokens, true), known(u.CompletionTokens, true)
		row.CachedTokens, row.ReasoningTokens = known(u.CachedTokens, true), known(u.ReasoningTokens, true)
	}
	row.setRun(from.Run)
	row.setSchedule(from.Run, r)
	row.setSpec(r.Spec)
	row.setLengths(from.Rules, r)
	row.setChunks(r.Chunks)
	row.setSampling(r.SamplingSent)
	return row, row.setObjects(r)
}

// setRun fills in what the run line says and the labels leave open.
func (row *Row) setRun(run *collector.Run) {
	if run == nil {
		return
	}
	if row.Run == "" {
		row.Run = run.ID
	}
	if row.Point == "" {
		row.Point = run.Point
	}
	row.Dataset, row.EngineVersion = run.Dataset, run.EngineVersion
	row.Concurrency = known(run.Concurrency, run.Concurrency > 0)
	row.Repeat = known(run.Repeat.Number(), true)
}

// setSchedule fills in the schedule of an open loop, and a first turn's moment in
// it. Its conversations are named by their places in the data set.
func (row *Row) setSchedule(run *collector.Run, r *collector.Record) {
	if run == nil || run.Schedule == nil {
		return
	}
	row.RequestRate, row.Arrivals = &run.Schedule.Rate, run.Schedule.Arrivals
	place, err := strconv.Atoi(r.Labels.Conversation)
	if err != nil || r.SetApart == collector.ApartWarmup || !r.Labels.HasTurn || r.Labels.Turn != 0 {
		return
	}
	if at, known := run.Schedule.Intended(place); known {
		late := at.Sub(r.Start.Round(0)).Seconds()
		row.Intended = &late
	}
}

func (row *Row) setSpec(s *collector.Spec) {
	if s == nil {
		return
	}
	row.VerifySteps, row.AcceptedTokens = known(s.Steps, true), known(s.AcceptedTokens, true)
	row.DraftedTokens, row.DraftLength = known(s.DraftedTokens, true), known(s.DraftLength, s.DraftLength > 0)
	row.Accepted, row.PerStepAccepted, row.PerStepDrafted = wide(s.Accepted), wide(s.PerStepAccepted), wide(s.PerStepDrafted)
	row.SpecDerived = s.Derived
}

// setLengths fills in both views of a request that succeeded. A Record that gives
// no lengths has none in any figure.
func (row *Row) setLengths(rules collector.LengthRules, r *collector.Record) {
	if r.ErrorKind != "" {
		return
	}
	client, err := rules.ClientLengths(r)
	if err != nil {
		return
	}
	row.ClientChunks, row.ClientTokens, row.ClientAL = sums(client.Lengths)
	row.ClientSource = client.Source
	row.DraftlessSteps, row.CutTokens = known(client.DraftlessSteps, true), known(client.CutTokens, true)
	if server, err := rules.ServerLengths(r); err == nil {
		row.ServerChunks, row.ServerTokens, row.ServerAL = sums(server.Lengths)
	}
}

// sums are the number of chunks, their tokens, and the mean where there is one.
func sums(lengths []int) (chunks, tokens *int64, al *float64) {
	total := 0
	for _, n := range lengths {
		total += n
	}
	if len(lengths) > 0 {
		mean := float64(total) / float64(len(lengths))
		al = &mean
	}
	return known(len(lengths), true), known(total, true), al
}

// setChunks turns the chunks into lists, those that say nothing left out.
func (row *Row) setChunks(chunks []collector.Chunk) {
	n := len(chunks)
	for i, c := range chunks {
		if row.ChunkTimes == nil {
			row.ChunkTimes = make([]float64, n)
		}
		row.ChunkTimes[i] = c.At.Seconds()
		if c.Tokens != 0 {
			row.ChunkTokens = sized(row.ChunkTokens, n)
			row.ChunkTokens[i] = int64(c.Tokens)
		}
		if c.Choice != 0 {
			row.ChunkChoices = sized(row.ChunkChoices, n)
			row.ChunkChoices[i] = int64(c.Choice)
		}
		if c.Shared {
			row.ChunkShared = sized(row.ChunkShared, n)
			row.ChunkShared[i] = true
		}
	}
}

func sized[T any](list []T, n int) []T {
	if list == nil {
		return make([]T, n)
	}
	return list
}

func (row *Row) setSampling(sent map[string]json.RawMessage) {
	row.Temperature, row.TopP, row.MinP = number(sent["temperature"]), number(sent["top_p"]), number(sent["min_p"])
	row.RepetitionPenalty = number(sent["repetition_penalty"])
	row.PresencePenalty, row.FrequencyPenalty = number(sent["presence_penalty"]), number(sent["frequency_penalty"])
	row.TopK, row.Seed, row.Choices = whole(sent["top_k"]), whole(sent["seed"]), whole(sent["n"])
	row.MinTokens, row.MaxTokens = whole(sent["min_tokens"]), whole(sent["max_completion_tokens"])
	if row.MaxTokens == nil {
		row.MaxTokens = whole(sent["max_tokens"])
	}
	if yes, err := strconv.ParseBool(string(sent["ignore_eos"])); err == nil && len(sent["ignore_eos"]) > 1 {
		row.IgnoreEOS = &yes
	}
}

// setObjects fills in the columns that are JSON objects. Their members are sorted.
func (row *Row) setObjects(r *collector.Record) (err error) {
	if row.SamplingSent, err = object(r.SamplingSent); err != nil {
		return err
	}
	if row.SamplingClient, err = object(r.SamplingClient); err != nil {
		return err
	}
	row.Headers, err = object(r.Headers)
	return err
}

func object[T any](members map[string]T) (string, error) {
	if len(members) == 0 {
		return "", nil
	}
	text, err := json.Marshal(members)
	return string(text), err
}

// number reads a number, in quotes or not, as the engines do; nil where it is none.
func number(raw json.RawMessage) *float64 {
	x, err := strconv.ParseFloat(unquoted(raw), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// whole reads a whole number, 5.0 as 5; nil where it is none or has no room.
func whole(raw json.RawMessage) *int64 {
	if n, err := strconv.ParseInt(unquoted(raw), 10, 64); err == nil {
		return &n
	}
	x := number(raw)
	if x == nil || *x != math.Trunc(*x) || math.Abs(*x) > 1<<53 {
		return nil
	}
	n := int64(*x)
	return &n
}

func unquoted(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func seconds(m collector.Moment) *float64 {
	if !m.Known {
		return nil
	}
	s := m.Offset.Seconds()
	return &s
}

func known(n int, yes bool) *int64 {
	if !yes {
		return nil
	}
	wide := int64(n)
	return &wide
}

// wide keeps nil and empty apart.
func wide(list []int) []int64 {
	if list == nil {
		return nil
	}
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}
