package proxy

import (
	"strings"
	"unicode/utf8"

	"spectap/collector"
)

// The longest texts of a client, or of an engine, that a Record keeps of each: a
// head can hold 128 KiB, a body far more, and thousands of Records may wait for a
// disk. Conversations, request ids and models are far shorter.
const (
	longestName = 256
	longestPath = 2 << 10
)

// bounded returns the beginning of a text, up to the end of a character.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) // or the whole text would stay in memory
}

// bound cuts what a request's head says in a Record. Its route is known before.
func bound(rec *collector.Record) {
	rec.Path = bounded(rec.Path, longestPath)
	rec.RequestID = bounded(rec.RequestID, longestName)
	rec.Labels.Conversation = bounded(rec.Labels.Conversation, longestName)
}
