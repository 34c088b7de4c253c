package main

import (
	"github.com/spf13/pflag"

	"spectap/sweep"
)

// addSLO adds the flags by which requests are judged.
func addSLO(flags *pflag.FlagSet, limits *list, share *float64) {
	flags.Var(limits, "slo", "limits that a request should keep, for example ttft=200ms,tpot=20ms; also e2e= and gap= (the longest time between two events)")
	flags.Float64Var(share, "slo_share", sweep.DefaultSLOShare, "share of the requests that should keep all limits of --slo")
}
