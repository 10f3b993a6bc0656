package bench

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
)

// Report is what a run measured.
type Report struct {
	Rows []Row `json:"rows"`
	// Run says on what and how it was measured.
	Run RunInfo `json:"run"`
	// Notes are what a reader has to know before comparing.
	Notes []string `json:"notes"`
}

// RunInfo describes a run.
type RunInfo struct {
	Version    string  `json:"version"`
	Go         string  `json:"go"`
	Postgres   string  `json:"postgres"`
	Processors int     `json:"processors"`
	Brokers    int     `json:"brokers"`
	Rounds     int     `json:"rounds"`
	Side       float64 `json:"sideSeconds"`
	Records    int64   `json:"drainRecords"`
	Ack        string  `json:"ack"`
}

// Row is one line of the report: medians over the rounds. Ratio is Value / Yardstick; higher is better, but for wake,
// whose Value is its p50 in milliseconds and whose Budget is the limit for that. Pointers are nil where something could
// not be measured.
type Row struct {
	Name      string   `json:"name"`
	Work      string   `json:"work"`
	Against   string   `json:"against"`
	Unit      string   `json:"unit"`
	Value     float64  `json:"value"`
	Yardstick *float64 `json:"yardstick"`
	Ratio     *float64 `json:"ratio"`
	Budget    *float64 `json:"budget"`
	// Met is null when the yardstick could not be measured.
	Met *bool `json:"met"`

	P50 float64 `json:"p50Millis"`
	P99 float64 `json:"p99Millis"`
	// Wake only: the p50 and p99 of the one-row update, and the limit for the p99.
	UpdateP50 *float64 `json:"updateP50Millis,omitempty"`
	UpdateP99 *float64 `json:"updateP99Millis,omitempty"`
	BudgetP99 *float64 `json:"budgetP99Millis,omitempty"`

	BrokerMicros   *float64 `json:"brokerMicrosPerMessage"`
	PostgresMicros *float64 `json:"postgresMicrosPerMessage"`
	LoadMicros     *float64 `json:"loadMicrosPerMessage"`
	// Commits counts transactions that wrote.
	Commits *float64 `json:"commitsPerMessage"`
	WAL     *float64 `json:"walBytesPerMessage"`

	Failed int64  `json:"failedCalls"`
	Audit  *Tally `json:"audit,omitempty"`
	// Rounds are the single measurements of value and yardstick, in order.
	Rounds []RoundValue `json:"rounds"`
}

// RoundValue is one round of a row.
type RoundValue struct {
	Value     float64  `json:"value"`
	Yardstick *float64 `json:"yardstick"`
}

func (r *runner) report(specs []rowSpec) *Report {
	out := &Report{
		Rows: []Row{},
		Run: RunInfo{
			Version: r.config.Version, Go: runtime.Version(), Processors: runtime.NumCPU(), Brokers: len(r.cluster.Brokers),
			Rounds: r.config.Rounds, Side: r.config.Side.Seconds(), Records: r.config.Records, Ack: "each",
		},
		Notes: append([]string{}, r.notes...),
	}
	if r.config.AckLast {
		out.Run.Ack = "last of each batch"
	}
	if r.db != nil {
		out.Run.Postgres = r.db.version
		if r.db.cannotCheckpoint {
			out.Notes = append(out.Notes, "no right to checkpoint: sides did not start alike")
		}
	}
	for _, spec := range specs {
		if len(r.samples[spec.side]) > 0 {
			out.Rows = append(out.Rows, makeRow(spec, r.samples[spec.side], r.samples[spec.yardstick]))
		}
	}
	return out
}

// makeRow takes medians. Yardsticks may be missing as a whole.
func makeRow(spec rowSpec, values, yardsticks []*sample) Row {
	row := Row{Name: spec.name, Work: spec.work, Against: spec.against, Unit: "messages/s"}
	row.P50 = medianOf(values, func(s *sample) float64 { return s.quantile(50) })
	row.P99 = medianOf(values, func(s *sample) float64 { return s.quantile(99) })
	for _, s := range values {
		row.Failed += s.failed
		if s.tally != nil {
			if row.Audit == nil {
				row.Audit = &Tally{}
			}
			row.Audit.add(*s.tally)
		}
	}
	if spec.side == sideWake {
		row.wake(values, yardsticks)
		return row
	}
	row.Value = medianOf(values, (*sample).perSecond)
	for i, s := range values {
		round := RoundValue{Value: s.rate}
		if i < len(yardsticks) {
			round.Yardstick = &yardsticks[i].rate
		}
		row.Rounds = append(row.Rounds, round)
	}
	row.Budget = &spec.budget
	if len(yardsticks) > 0 {
		yardstick := medianOf(yardsticks, (*sample).perSecond)
		ratio := row.Value / yardstick
		met := ratio >= spec.budget && (row.Audit == nil || row.Audit.clean())
		row.Yardstick, row.Ratio, row.Met = &yardstick, &ratio, &met
	}
	row.BrokerMicros = perMessage(values, func(s *sample) float64 { return float64(s.cost.brokers.Nanoseconds()) / 1000 })
	row.PostgresMicros = perMessage(values, func(s *sample) float64 { return float64(s.cost.postgres.Nanoseconds()) / 1000 })
	row.LoadMicros = perMessage(values, func(s *sample) float64 { return float64(s.cost.load.Nanoseconds()) / 1000 })
	row.Commits = perMessage(values, func(s *sample) float64 { return float64(s.cost.writes) })
	row.WAL = perMessage(values, func(s *sample) float64 { return float64(s.cost.wal) })
	return row
}

// wake has limits in place of a ratio.
func (row *Row) wake(values, updates []*sample) {
	row.Unit = "ms"
	row.Value = row.P50
	for i, s := range values {
		round := RoundValue{Value: s.quantile(50)}
		if i < len(updates) {
			update := updates[i].quantile(50)
			round.Yardstick = &update
		}
		row.Rounds = append(row.Rounds, round)
	}
	if len(updates) == 0 {
		return
	}
	p50 := medianOf(updates, func(s *sample) float64 { return s.quantile(50) })
	p99 := medianOf(updates, func(s *sample) float64 { return s.quantile(99) })
	limit50, limit99 := wakeLimits(p50, p99)
	met := row.P50 <= limit50 && row.P99 <= limit99 && row.Audit.clean()
	row.UpdateP50, row.UpdateP99, row.Budget, row.BudgetP99, row.Met = &p50, &p99, &limit50, &limit99, &met
}

func (s *sample) perSecond() float64 { return s.rate }

func medianOf(samples []*sample, of func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// perMessage is the median of a cost a message, nil when it is not known in any round.
func perMessage(samples []*sample, of func(*sample) float64) *float64 {
	var known []float64
	for _, s := range samples {
		if total := of(s); total >= 0 && s.messages > 0 {
			known = append(known, total/float64(s.messages))
		}
	}
	if len(known) == 0 {
		return nil
	}
	m := median(known)
	return &m
}

// WriteText writes the report as a table.
func (r *Report) WriteText(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "row\tvalue\tyardstick\tratio\tbudget\tmet\tp50 ms\tp99 ms\tbroker us\tpostgres us\tload us\tcommits\twal B\t")
	for _, row := range r.Rows {
		format := "%.0f"
		yardstick := row.Yardstick
		if row.Name == "wake" {
			format = "%.2f"
			yardstick = row.UpdateP50
		}
		fmt.Fprintf(out, "%s\t"+format+"\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t%s\t%s\t%s\t%s\t%s\t\n",
			row.Name, row.Value, cell(format, yardstick), cell("%.2f", row.Ratio), cell("%.2f", row.Budget), verdict(row.Met),
			row.P50, row.P99, cell("%.2f", row.BrokerMicros), cell("%.2f", row.PostgresMicros), cell("%.2f", row.LoadMicros),
			cell("%.4f", row.Commits), cell("%.0f", row.WAL))
	}
	out.Flush()
	fmt.Fprintf(w, "\nCosts are processor time, writing transactions and WAL a message. Medians of %d rounds of %.1f s a side;\n"+
		"%d processors, %d brokers, PostgreSQL %s, waggle %s, ack of %s.\n",
		r.Run.Rounds, r.Run.Side, r.Run.Processors, r.Run.Brokers, orUnknown(r.Run.Postgres), r.Run.Version, r.Run.Ack)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s: %s; against %s\n", row.Name, row.Work, row.Against)
		if row.Audit != nil {
			fmt.Fprintf(w, "  audit: %s\n", row.Audit)
		}
		if row.BudgetP99 != nil {
			fmt.Fprintf(w, "  update: p50 %.2f ms, p99 %.2f ms; limits: p50 %.2f ms, p99 %.2f ms\n",
				*row.UpdateP50, *row.UpdateP99, *row.Budget, *row.BudgetP99)
		}
		if row.Failed > 0 {
			fmt.Fprintf(w, "  %d calls failed\n", row.Failed)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

func cell(format string, value *float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf(format, *value)
}

func verdict(met *bool) string {
	switch {
	case met == nil:
		return "-"
	case *met:
		return "yes"
	}
	return "no"
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}
