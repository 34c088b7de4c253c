package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"spectap/collector"
)

// unchanged compares the server with what it was at the start of the sweep, before
// another point is asked. One that was restarted otherwise would be measured under
// the first one's name; one that was restarted as it was may go on.
func (s *Sweep) unchanged(ctx context.Context, srv server, cards []modelCard) error {
	now := server{model: srv.model, engine: srv.engine, card: cardOf(srv.model, cards), version: s.engineVersion(ctx, srv.engine)}
	now.learn(before{counters: s.counters(ctx, srv.engine)})
	first, _ := json.Marshal(s.bookServer(srv)) // our own type
	list, _ := serverDifferences(first, s.bookServer(server{model: now.model, engine: now.engine, card: now.card, version: now.version, cache: now.cache}))
	if srv.card != nil && now.card == nil && len(cards) > 0 {
		list = append(list, difference{"model", strconv.Quote(srv.model), describe(cards)})
	}
	if was, is := srv.positions, now.positions; is != was && is > 0 && (was > 0 || s.Plan.Config.Baseline) {
		list = append(list, difference{"draft_length_tokens", strconv.Itoa(was), strconv.Itoa(is)})
	}
	if len(list) == 0 {
		return ctx.Err()
	}
	lines := []string{"the server is not the one with which this sweep began"}
	for _, d := range list {
		lines = append(lines, "  "+d.String())
	}
	return fmt.Errorf("%s\n  complete points are kept; start the server as it was and go on with --resume, or measure this one into another --save_dir", strings.Join(lines, "\n"))
}

// cardOf is the text of a model's entry; nil where it is not listed.
func cardOf(model string, cards []modelCard) json.RawMessage {
	for _, card := range cards {
		if card.ID == model {
			return card.text
		}
	}
	return nil
}

// otherDrafts says that a point's answers tell of another draft length than those
// of the start; "" where they do not. vLLM's is fixed when it starts; other engines
// may draft more or less by load.
func (srv server) otherDrafts(recs []*collector.Record) string {
	if srv.engine != engineVLLM || srv.block == 0 {
		return ""
	}
	n, other := 0, 0
	for _, r := range recs {
		if r.Spec != nil && r.Spec.DraftLength > 0 && r.Spec.DraftLength != srv.block {
			n, other = n+1, r.Spec.DraftLength
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the server is not the one with which this sweep began: %d of %d answers tell of %d drafts a step, those of the start of %d", n, len(recs), other, srv.block)
}
