package mesh

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestTheGuideExplainsEveryMetric holds the tables of docs/mesh.md against what a mesh registers: no metric and no
// reason is missing there, and none is there that does not exist.
func TestTheGuideExplainsEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/mesh.md")
	require.NoError(t, err)
	var metrics, reasons []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if name := firstCell.FindStringSubmatch(line); name != nil && len(cells) == 3 {
			require.Greater(t, len(cells[2]), 15, "what to do: %s", line)
			if strings.HasPrefix(name[1], "waggle_") {
				metrics = append(metrics, name[1])
			} else {
				reasons = append(reasons, name[1])
			}
		}
	}
	cfg := goodConfig()
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	_, err = New(cfg)
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	var registered []string
	for _, family := range families {
		registered = append(registered, family.GetName())
	}
	require.ElementsMatch(t, registered, metrics)
	require.ElementsMatch(t, dropReasons, reasons)
	for _, name := range anyMetric.FindAllString(string(text), -1) {
		require.Contains(t, registered, name)
	}
	for _, kind := range kinds {
		require.Contains(t, string(text), "\n| "+strings.ReplaceAll(kind.String(), "_", " ")+" | ")
	}
}

var (
	firstCell = regexp.MustCompile("^\\| `(\\w+)` \\|")
	anyMetric = regexp.MustCompile(`\bwaggle_mesh_\w+\b`)
)
