package leader_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(candidateVariable); settings != "" {
		os.Exit(runCandidate(settings))
	}
	goleak.VerifyTestMain(m)
}
