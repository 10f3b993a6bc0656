package auth

import (
	"net/http"
	"strings"
)

// Level is what a request needs. Each level is a set of roles that satisfy it.
type Level uint8

// The levels of the contract, section 2.
const (
	Public Level = iota
	ReadOnly
	WriteOnly
	ReadWrite
	Admin
)

var levelNames = [...]string{"public", "read-only", "write-only", "read-write", "admin"}

// String is the level's name in the contract.
func (l Level) String() string { return levelNames[l] }

// Roles is a set of roles.
type Roles uint8

// The roles that a token may carry, under names that can be configured.
const (
	RoleReadOnly Roles = 1 << iota
	RoleWriteOnly
	RoleReadWrite
	RoleAdmin
)

// satisfying holds, for each level, the roles of which one is enough.
var satisfying = [...]Roles{
	ReadOnly:  RoleReadOnly | RoleReadWrite | RoleAdmin,
	WriteOnly: RoleWriteOnly | RoleReadWrite | RoleAdmin,
	ReadWrite: RoleReadWrite | RoleAdmin,
	Admin:     RoleAdmin,
}

// May says whether these roles satisfy a level.
func (r Roles) May(level Level) bool { return level == Public || r&satisfying[level] != 0 }

// LevelOf is the level of a request. The path is the one that was sent, without query and not decoded: routes are found
// in the same text, so that what is encoded here is encoded there. HEAD counts as GET, because it runs the same code. What
// nobody knows is read-write.
func LevelOf(method, path string) Level {
	if isPublic(path) {
		return Public
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch path {
	case "/status":
		if method == http.MethodGet {
			return ReadOnly
		}
		return ReadWrite
	case "/streams/v1/state/get":
		return ReadOnly
	}
	if within(path, "/internal") {
		return Admin
	}
	if below, ours := strings.CutPrefix(path, "/api/v1/"); ours {
		return levelBelow(method, below)
	}
	return ReadWrite
}

func isPublic(path string) bool {
	switch path {
	case "/", "/health", "/health/live", "/health/ready", "/metrics", "/metrics/prometheus",
		"/auth/me", "/auth/login", "/auth/logout":
		return true
	}
	return strings.HasPrefix(path, "/assets/") || strings.HasPrefix(path, "/favicon")
}

// readable are the families whose GETs only look. The last two are waggle's own.
var readable = []string{
	"status", "analytics", "resources", "messages", "consumer-groups", "dlq", "traces", "kv", "timers", "ephemeral/queues",
	"cluster", "openapi.json",
}

// levelBelow is for paths below /api/v1/.
func levelBelow(method, below string) Level {
	switch {
	case within(below, "system"), below == "stats/refresh", below == "cluster/mesh/keys/rotate", within(below, "cluster") && method != http.MethodGet:
		return Admin
	case below == "push":
		return WriteOnly
	}
	switch method {
	case http.MethodDelete:
		if below == "dlq" || strings.HasPrefix(below, "consumer-groups/") || strings.HasPrefix(below, "resources/queues/") {
			return Admin
		}
	case http.MethodPost:
		switch below {
		case "timers", "ephemeral/push":
			return WriteOnly
		case "fetch", "partitions/changed", "resources/kv/list":
			return ReadOnly
		}
	case http.MethodGet:
		for _, family := range readable {
			if within(below, family) {
				return ReadOnly
			}
		}
	}
	return ReadWrite
}

// within says whether path is the folder or lies below it.
func within(path, folder string) bool {
	rest, found := strings.CutPrefix(path, folder)
	return found && (rest == "" || rest[0] == '/')
}
