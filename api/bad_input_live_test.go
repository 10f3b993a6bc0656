package api_test

import (
	"strings"
	"testing"

	"waggle/api"
)

// What gets past the first checks must not come back as an error of the database.
func TestBadInputIsRefusedByRealBrokers(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	for name, rows := range api.BadInputs() {
		method, _, _ := strings.Cut(name, " ")
		for _, row := range rows {
			status, answer := l.send(method, row.Target, row.Body)
			row.Check(t, method, status, answer)
		}
	}
}
