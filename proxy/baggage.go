package proxy

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"spectap/collector"
)

// The limits of https://www.w3.org/TR/baggage/ section 3.3.2. What lies beyond them is not read.
const (
	baggageBytes   = 8192
	baggageMembers = 64
)

// LabelsFromBaggage reads the labels spectap.* of a baggage header. Values are
// percent-decoded, properties after a semicolon are not read, of duplicates the
// last counts, and a member that is malformed is skipped. Several header fields
// are joined with commas by the caller.
func LabelsFromBaggage(header []byte) collector.Labels {
	var labels collector.Labels
	if len(header) > baggageBytes {
		header = header[:max(0, bytes.LastIndexByte(header[:baggageBytes+1], ','))]
	}
	read := 0
	for member := range bytes.SplitSeq(header, []byte{','}) {
		if read++; read > baggageMembers {
			break
		}
		member, _, _ = bytes.Cut(member, []byte{';'})
		key, value, ok := bytes.Cut(member, []byte{'='})
		if !ok {
			continue
		}
		setLabel(&labels, string(bytes.Trim(key, " \t")), bytes.Trim(value, " \t"))
	}
	return labels
}

func setLabel(labels *collector.Labels, key string, value []byte) {
	switch key {
	case "spectap.run":
		labels.Run = percentDecode(value)
	case "spectap.point":
		labels.Point = percentDecode(value)
	case "spectap.conversation":
		labels.Conversation = percentDecode(value)
	case "spectap.question":
		labels.Question = percentDecode(value)
	case "spectap.category":
		labels.Category = percentDecode(value)
	case "spectap.turn":
		if turn, err := strconv.Atoi(percentDecode(value)); err == nil && turn >= 0 {
			labels.Turn, labels.HasTurn = turn, true
		}
	}
}

// percentDecode decodes %XX. A percent sign without two hex digits stays, and
// bytes that are no UTF-8 become U+FFFD, as the specification asks.
func percentDecode(value []byte) string {
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			if b, err := strconv.ParseUint(string(value[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, value[i])
	}
	if utf8.Valid(out) {
		return string(out)
	}
	return string(bytes.ToValidUTF8(out, []byte("\uFFFD")))
}
