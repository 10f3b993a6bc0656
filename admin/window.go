package admin

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// Window is a span of time and how it is cut into buckets.
type Window struct {
	From, To time.Time
	// Step is the length of a bucket in minutes.
	Step int
}

// maxWindow is as far back as anything is kept.
const maxWindow = 366 * 24 * time.Hour

// NewWindow cuts a span by the contract's rule: the longer it is, the longer its buckets.
func NewWindow(from, to time.Time) Window {
	if to.Before(from) {
		from, to = to, from
	}
	if to.Sub(from) > maxWindow {
		from = to.Add(-maxWindow)
	}
	w := Window{From: from.UTC(), To: to.UTC(), Step: 360}
	for _, rule := range []struct {
		upTo time.Duration
		step int
	}{{time.Hour, 1}, {6 * time.Hour, 5}, {24 * time.Hour, 15}, {7 * 24 * time.Hour, 60}} {
		if to.Sub(from) <= rule.upTo {
			w.Step = rule.step
			break
		}
	}
	return w
}

// SeriesFilter says whose numbers to read; nil fields select all.
type SeriesFilter struct {
	Tenant    *uuid.UUID
	Queue     *string
	Namespace *string
	Task      *string
}

// rows says which rows answer the window: sums of hours where a bucket is no shorter, so that days are cheap to read.
func (w Window) rows(f SeriesFilter) pg.SeriesFilter {
	minutes := 1
	if w.Step >= 60 {
		minutes = 60
	}
	step := time.Duration(w.Step) * time.Minute
	return pg.SeriesFilter{
		Minutes: minutes, Step: w.Step, From: w.From.Truncate(step), To: w.To.Add(time.Minute), Tenant: f.Tenant, Queue: f.Queue,
		Namespace: f.Namespace, Task: f.Task,
	}
}

func (w Window) seconds() float64 { return float64(w.Step) * 60 }

// Bucket is the beginning of a bucket, in whole seconds.
type Bucket time.Time

// MarshalJSON implements json.Marshaler.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(b).UTC().Format("2006-01-02T15:04:05Z"))
}

// Moment is a time with three decimals; the zero time is null.
type Moment time.Time

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(m).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// TimeRange is a window as answers show it.
type TimeRange struct {
	From Moment `json:"from"`
	To   Moment `json:"to"`
}

func (w Window) timeRange() TimeRange { return TimeRange{Moment(w.From), Moment(w.To)} }

func moment(at *time.Time) Moment {
	if at == nil {
		return Moment{}
	}
	return Moment(*at)
}
