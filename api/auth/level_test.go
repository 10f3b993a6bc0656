package auth

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevelOfEveryRoute(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		level   Level
		methods string
		paths   []string
	}{
		{Public, "GET POST", []string{
			"/", "/health", "/health/live", "/health/ready", "/metrics", "/metrics/prometheus", "/auth/me", "/auth/login",
			"/auth/logout", "/assets/app.js", "/favicon.ico", "/favicon-32.png",
		}},
		{Admin, "GET POST PUT DELETE HEAD", []string{
			"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop", "/api/v1/system/kv-timers", "/api/v1/system/ephemeral",
			"/api/v1/system/shared-state", "/api/v1/system", "/api/v1/stats/refresh",
			"/api/v1/cluster/mesh/keys/rotate",
			"/internal/api/notify", "/internal/api/shared-state/stats", "/internal/api/inter-instance/stats", "/internal",
		}},
		{Admin, "POST PUT DELETE", []string{"/api/v1/cluster", "/api/v1/cluster/leader/step-down", "/api/v1/cluster/leader/jobs/purge"}},
		{Admin, "DELETE", []string{
			"/api/v1/resources/queues/q", "/api/v1/resources/queues/a/b", "/api/v1/dlq", "/api/v1/consumer-groups/g",
			"/api/v1/consumer-groups/g/queues/q",
		}},
		{ReadOnly, "GET HEAD", []string{
			"/status", "/api/v1/resources/queues", "/api/v1/resources/queues/q", "/api/v1/resources/queues/q/depth",
			"/api/v1/resources/overview", "/api/v1/resources/namespaces", "/api/v1/resources/tasks",
			"/api/v1/resources/kv/namespaces", "/api/v1/messages", "/api/v1/messages/p/t", "/api/v1/dlq",
			"/api/v1/traces/names", "/api/v1/traces/by-name/n", "/api/v1/traces/p/t", "/api/v1/consumer-groups",
			"/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/g", "/api/v1/status", "/api/v1/status/queues",
			"/api/v1/status/queues/q", "/api/v1/status/analytics", "/api/v1/status/buffers",
			"/api/v1/analytics/system-metrics", "/api/v1/analytics/queue-lag", "/api/v1/kv/ns/key", "/api/v1/timers/q",
			"/api/v1/timers/q/k", "/api/v1/ephemeral/queues", "/api/v1/ephemeral/queues/q/depth", "/api/v1/cluster",
			"/api/v1/cluster/leader", "/api/v1/cluster/mesh", "/api/v1/cluster/mesh/keys", "/api/v1/cluster/mesh/ping", "/api/v1/cluster/schema", "/api/v1/openapi.json",
		}},
		{ReadOnly, "POST", []string{
			"/api/v1/fetch", "/api/v1/partitions/changed", "/api/v1/resources/kv/list", "/streams/v1/state/get",
		}},
		{WriteOnly, "POST", []string{"/api/v1/push", "/api/v1/timers", "/api/v1/ephemeral/push"}},
		{ReadWrite, "GET HEAD", []string{
			"/api/v1/pop", "/api/v1/pop/queue/q", "/api/v1/pop/queue/q/partition/p", "/api/v1/ephemeral/pop", "/index.html",
			"/nowhere", "/api/v1/nowhere", "/api/v2/push", "/api/v1/statuses", "/api/v1/systems", "/api/v1/fetch", "/healthy",
			"/health/", "", "*", "/api/v1/%73ystem/maintenance", "//api/v1/system", "/API/V1/SYSTEM", "/assets",
		}},
		{ReadWrite, "POST", []string{
			"/api/v1/ack", "/api/v1/ack/batch", "/api/v1/transaction", "/api/v1/lease/l/extend", "/api/v1/configure",
			"/streams/v1/queries", "/streams/v1/cycle", "/api/v1/messages/p/t/retry", "/api/v1/dlq/1/replay", "/api/v1/traces",
			"/api/v1/consumer-groups/g/subscription", "/api/v1/consumer-groups/g/queues/q/seek",
			"/api/v1/consumer-groups/g/queues/q/partitions/p/seek", "/api/v1/kv", "/api/v1/ephemeral/ack",
			"/api/v1/ephemeral/configure", "/api/v1/ephemeral/reset", "/api/v1/locks", "/status",
			"/api/v1/timers/q", "/api/v1/stream/poll",
		}},
		{ReadWrite, "DELETE PUT", []string{"/api/v1/messages/p/t", "/api/v1/kv/ns/key", "/api/v1/timers/q/k", "/api/v1/ephemeral/queue/q"}},
	} {
		for _, method := range strings.Fields(row.methods) {
			for _, path := range row.paths {
				require.Equal(t, row.level, LevelOf(method, path), "%s %s", method, path)
			}
		}
	}
}

func TestLevelsAreSets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		roles Roles
		may   []Level
	}{
		{0, []Level{Public}},
		{RoleReadOnly, []Level{Public, ReadOnly}},
		{RoleWriteOnly, []Level{Public, WriteOnly}},
		{RoleReadOnly | RoleWriteOnly, []Level{Public, ReadOnly, WriteOnly}},
		{RoleReadWrite, []Level{Public, ReadOnly, WriteOnly, ReadWrite}},
		{RoleAdmin, []Level{Public, ReadOnly, WriteOnly, ReadWrite, Admin}},
	} {
		for level := Public; level <= Admin; level++ {
			require.Equal(t, slices.Contains(row.may, level), row.roles.May(level), "%b %s", row.roles, level)
		}
	}
}
