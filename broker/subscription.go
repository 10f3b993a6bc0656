package broker

import (
	"fmt"
	"time"

	"waggle/pg"
)

// start applies the subscription rules of section 4.3 of the contract to a first pop.
func (b *Broker) start(req PopRequest, pinned bool) pg.Start {
	if req.Group == QueueMode {
		return pg.Start{Mode: pg.StartAll}
	}
	if from := req.SubscriptionFrom; from != "" {
		if from == "now" {
			return pg.Start{Mode: pg.StartNew}
		}
		at, err := ParseTimestamp(from)
		switch {
		case err == nil:
			return pg.Start{Mode: pg.StartFrom, At: at}
		case pinned:
			return pg.Start{Mode: pg.StartAll}
		default:
			return pg.Start{Mode: pg.StartNew}
		}
	}
	mode := req.SubscriptionMode
	if mode == "" {
		mode = b.config.SubscriptionMode
	}
	switch mode {
	case "", "new", "new-only":
		return pg.Start{Mode: pg.StartNew}
	default:
		return pg.Start{Mode: pg.StartAll}
	}
}

// ParseTimestamp takes the ISO forms that clients send; a time without a zone is UTC.
func ParseTimestamp(text string) (time.Time, error) {
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02",
	} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("no ISO time: %q", text)
}
