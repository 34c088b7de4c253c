package sweep

import (
	"errors"
	"fmt"

	"spectap/collector"
)

// checkBaseline returns what a baseline cannot be asked for.
func (c Config) checkBaseline() []error {
	if !c.Baseline {
		return nil
	}
	var errs []error
	if c.Acceptance == collector.ViewServer {
		errs = append(errs, errors.New("cannot use --acceptance server with --baseline: a baseline has no acceptance_rate.json"))
	}
	if c.Driver == DriverAIPerf {
		errs = append(errs, errors.New("cannot use --baseline with --driver aiperf: want --driver builtin"))
	}
	return errs
}

// checkBaseline refuses a server that speculates, and one that does not say how
// many tokens it made. It needs no statistics.
func (s *Sweep) checkBaseline(b before, rec *collector.Record) error {
	const so = "start it without its speculative arguments (spectap launch --baseline leaves them out), or sweep without --baseline"
	switch {
	case rec.Spec != nil:
		return fmt.Errorf("%w: --baseline measures a server that does not speculate, and this one reports speculative decoding with each request; %s", ErrUsage, so)
	case b.counters != nil && b.counters.HasSpec:
		return fmt.Errorf("%w: --baseline measures a server that does not speculate, and this one counts drafts on /metrics; %s", ErrUsage, so)
	case rec.Usage == nil && !hasCounts(rec):
		return fmt.Errorf("%w: the first short request came without usage, so that its tokens are not known, which --baseline needs", ErrNoStatistics)
	}
	return nil
}
