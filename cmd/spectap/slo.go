package main

import (
	"errors"

	"github.com/spf13/pflag"

	"spectap/sweep"
)

// addSLO adds the flags by which requests are judged.
func addSLO(flags *pflag.FlagSet, limits *list, share *float64) {
	flags.Var(limits, "slo", "limits that a request should keep, for example ttft=200ms,tpot=20ms; also e2e= and gap= (the longest time between two events)")
	flags.Float64Var(share, "slo_share", sweep.DefaultSLOShare, "share of the requests that should keep all limits of --slo")
}

// checkSLOShare refuses a share of 0, which sweep.Config takes for the default, and
// one of no limits.
func checkSLOShare(flags *pflag.FlagSet, limits list, share float64) error {
	if len(limits) == 0 && flags.Changed("slo_share") {
		return errors.New("cannot use --slo_share without --slo: want the limits that this share of the requests should keep, such as --slo ttft=200ms")
	}
	if len(limits) > 0 && share == 0 {
		return errors.New("cannot use --slo_share 0: want a share above 0 and below 1, such as 0.95")
	}
	return nil
}
