package logp

import (
	"math"
	"slices"
)

// Statistic summarizes one figure over many runs. Percentiles are exact: each is the smallest value that the
// given share of the runs does not exceed.
type Statistic struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Summary summarizes the results of many runs of P processes.
type Summary struct {
	Runs                  int       `json:"runs"`
	Coloring              Statistic `json:"coloring"`
	Quiescence            Statistic `json:"quiescence"`
	Correction            Statistic `json:"correction"`
	MessagesPerProcess    Statistic `json:"messages_per_process"`
	DisseminationMessages Statistic `json:"dissemination_messages"`
	CorrectionMessages    Statistic `json:"correction_messages"`
	GapMax                Statistic `json:"gap_max"`
	Uncolored             Statistic `json:"uncolored"`
}

// Summarize summarizes results of runs among p processes.
func Summarize(results []Result, p int) Summary {
	of := func(figure func(*Result) float64) Statistic {
		values := make([]float64, len(results))
		for i := range results {
			values[i] = figure(&results[i])
		}
		return statistic(values)
	}
	return Summary{
		Runs:                  len(results),
		Coloring:              of(func(r *Result) float64 { return float64(r.Coloring) }),
		Quiescence:            of(func(r *Result) float64 { return float64(r.Quiescence) }),
		Correction:            of(func(r *Result) float64 { return float64(r.Correction) }),
		MessagesPerProcess:    of(func(r *Result) float64 { return float64(r.Sent()) / float64(p) }),
		DisseminationMessages: of(func(r *Result) float64 { return float64(r.Disseminations) }),
		CorrectionMessages:    of(func(r *Result) float64 { return float64(r.Corrections) }),
		GapMax:                of(func(r *Result) float64 { return float64(r.GapMax) }),
		Uncolored:             of(func(r *Result) float64 { return float64(r.Uncolored) }),
	}
}

// statistic sorts its argument.
func statistic(values []float64) Statistic {
	if len(values) == 0 {
		return Statistic{}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	slices.Sort(values)
	at := func(permille int) float64 {
		rank := int(math.Ceil(float64(len(values)*permille) / 1000))
		return values[max(rank, 1)-1]
	}
	return Statistic{
		Mean: sum / float64(len(values)),
		P50:  at(500), P99: at(990), P999: at(999), Max: values[len(values)-1],
	}
}
