package report

import (
	"fmt"
	"math"
	"strings"
)

// viewsApart is the least difference of the views that is worth a sentence.
const viewsApart = 0.0005

// differencesSection tells how this run's acceptance lengths differ from those of
// other tools, each difference only where it applies, with the run's own numbers.
// The numbers D1 to D14 are those of metric-parity, section 11.
func (s *Source) differencesSection() section {
	sec := section{ID: "differences", Title: "Known differences"}
	points := withPositions(s.speculative())
	if len(points) == 0 {
		return sec
	}
	sec.say("The server counts verify steps before a reply is cut; a client such as specdec_bench counts the tokens that arrive. " + viewsSentence(points))
	var total turnEnds
	steps, draftless := 0, 0
	for _, p := range points {
		total.add(p.ends)
		steps, draftless = steps+p.spec.Steps.Verify, draftless+p.spec.Steps.Draftless
	}
	apply, not := total.sentences(steps, draftless)
	sec.Blocks = append(sec.Blocks, block{List: apply})
	if len(not) > 0 {
		sec.quiet("Looked for and not found in this run: " + list(not) + ".")
	}
	sec.table(endsTable(points))
	return sec
}

func (e *turnEnds) add(o turnEnds) {
	e.turns += o.turns
	e.cutStop += o.cutStop
	e.tokensStop += o.tokensStop
	e.eos += o.eos
	e.cutLimit += o.cutLimit
	e.tokensLimit += o.tokensLimit
	e.draftless += o.draftless
	e.stopToken += o.stopToken
	e.approximated += o.approximated
}

// viewsSentence names both views where they are furthest apart.
func viewsSentence(points []*point) string {
	worst := points[0]
	for _, p := range points {
		if math.Abs(p.spec.Difference) > math.Abs(worst.spec.Difference) {
			worst = p
		}
	}
	if math.Abs(worst.spec.Difference) < viewsApart {
		return "In this run both views of AL agree to three decimals at every point."
	}
	return fmt.Sprintf("In this run they are furthest apart at %s: server view %s, client view %s (%s). acceptance_rate.json holds the %s view.",
		worst.title(), fixed(worst.spec.Server.AverageAL, 3), fixed(worst.spec.Client.AverageAL, 3), signed(worst.spec.Difference, 3), worst.spec.View)
}

// signed writes a number with its sign.
func signed(v float64, decimals int) string {
	text := fixed(v, decimals)
	if v > 0 && strings.Trim(text, "0.,") != "" {
		return "+" + text
	}
	return text
}

// sentences tells the differences that apply, and names those that do not.
func (e turnEnds) sentences(steps, draftless int) (apply, not []string) {
	of := " of " + counted(e.turns, "turn")
	tell := func(n int, id, sentence, absent string) {
		if n > 0 {
			apply = append(apply, id+": "+sentence)
		} else {
			not = append(not, absent+" ("+id+")")
		}
	}
	tell(e.cutStop, "D1", fmt.Sprintf("%s%s were cut at the end by EOS or a stop token, %s in all. The server's histogram keeps the whole last step, so its AL is higher.",
		count(e.cutStop), of, counted(e.tokensStop, "token")), "a last step cut by a stop")
	tell(e.eos, "D2", fmt.Sprintf("%s%s ended at EOS. specdec_bench takes EOS away: one token less a turn, and one chunk less where it came alone. The client view does so too, the server view does not.",
		count(e.eos), of), "an end at EOS")
	tell(e.cutLimit, "D3", fmt.Sprintf("%s%s were cut at the end by the token limit, %s in all. The server's histogram keeps these.",
		count(e.cutLimit), of, counted(e.tokensLimit, "token")), "a last step cut by the token limit")
	share := 0.0
	if steps+draftless > 0 {
		share = float64(draftless) / float64(steps+draftless)
	}
	tell(e.draftless, "D4", fmt.Sprintf("%s%s have decode steps without drafts, %s of %s decode steps (%s). They are in no histogram of the server, so its AL is too high; n-gram drafting has many of them.",
		count(e.draftless), of, count(draftless), count(steps+draftless), percent(share)), "decode steps without drafts")
	tell(e.stopToken, "D14", fmt.Sprintf("%s%s ended at a stop token other than EOS and had a turn after them. specdec_bench asks that turn with the stop token in its history, a server's text is without it.",
		count(e.stopToken), of), "a stop token other than EOS before a later turn")
	if e.approximated > 0 {
		apply = append(apply, fmt.Sprintf("Of %s%s the events and the statistics block do not both say how every step went, so what was cut and what had no drafts is a lower bound there.", count(e.approximated), of))
	}
	return apply, not
}

// endsTable has the numbers behind the sentences, by point.
func endsTable(points []*point) table {
	t := table{
		Caption: "Both views of AL, and the turns that make them differ",
		Head: heads("Point", "Server AL", "Client AL", "Server − client", "Turns", "Cut by a stop (D1)", "Ended at EOS (D2)", "Cut by the limit (D3)",
			"With draft-less steps (D4)", "Stop token (D14)"),
	}
	for _, p := range points {
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(fixed(p.spec.Server.AverageAL, 3)), number(fixed(p.spec.Client.AverageAL, 3)), number(signed(p.spec.Difference, 3)),
			number(count(p.ends.turns)), number(count(p.ends.cutStop)), number(count(p.ends.eos)), number(count(p.ends.cutLimit)), number(count(p.ends.draftless)), number(count(p.ends.stopToken))})
	}
	return t
}
