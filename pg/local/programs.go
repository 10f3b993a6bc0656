package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinMajor is the oldest major version of PostgreSQL that waggle runs on.
const MinMajor = 15

// folders are where distributions keep the server programs, which are often not on PATH.
var folders = []string{
	"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
	"/usr/pgsql-*/bin",          // the project's own packages for Red Hat and its relatives
	"/usr/lib/postgresql*/bin",  // SUSE
	"/usr/libexec/postgresql*",  // Alpine
	"/usr/local/pgsql/bin",      // built from source
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// NotInstalledError says that no usable PostgreSQL server was found, and how to install one.
type NotInstalledError struct {
	// Want is the major version that existing data demands, or zero when any from MinMajor on would do.
	Want int
	// Found lists the programs that exist but do not fit, as "path (major version)".
	Found []string
	// Hint is the command that installs a server on this system.
	Hint string
}

// Error is one line.
func (e *NotInstalledError) Error() string {
	var text strings.Builder
	if e.Want > 0 {
		fmt.Fprintf(&text, "the data was written by PostgreSQL %d and its server programs were not found", e.Want)
	} else {
		fmt.Fprintf(&text, "no PostgreSQL server %d or newer was found on PATH or in the usual folders", MinMajor)
	}
	if len(e.Found) > 0 {
		fmt.Fprintf(&text, " (found only %s)", strings.Join(e.Found, ", "))
	}
	fmt.Fprintf(&text, "; install it with: %s", e.Hint)
	return text.String()
}

// programs are the server programs of one installation.
type programs struct {
	dir   string
	major int
}

func (p programs) postgres() string { return filepath.Join(p.dir, "postgres") }
func (p programs) initdb() string   { return filepath.Join(p.dir, "initdb") }

// FindPrograms returns the folder and the major version of the server programs that a new server would use: those on PATH
// when they are new enough, else the newest in the usual folders. The error is a *NotInstalledError.
func FindPrograms(ctx context.Context) (dir string, major int, err error) {
	found, err := findPrograms(ctx, 0, os.Getenv("PATH"), folders)
	return found.dir, found.major, err
}

// findPrograms looks for the given major version, or for any from MinMajor on when it is zero.
func findPrograms(ctx context.Context, want int, path string, patterns []string) (programs, error) {
	fits := func(p programs) bool { return p.major >= MinMajor && (want == 0 || p.major == want) }
	var rejected []string
	var usable []programs
	preferred := onPath(path)
	for i, dir := range slices.Concat(preferred, inFolders(patterns)) {
		candidate, ok := inspect(ctx, dir)
		switch {
		case !ok:
		case !fits(candidate):
			rejected = append(rejected, fmt.Sprintf("%s (%d)", candidate.postgres(), candidate.major))
		case i < len(preferred):
			return candidate, nil
		default:
			usable = append(usable, candidate)
		}
	}
	if len(usable) == 0 {
		slices.Sort(rejected)
		return programs{}, &NotInstalledError{Want: want, Found: slices.Compact(rejected), Hint: installHint(want)}
	}
	return slices.MaxFunc(usable, func(a, b programs) int { return a.major - b.major }), nil
}

// onPath resolves symbolic links, because initdb looks for its companions beside itself.
func onPath(path string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err == nil && filepath.IsAbs(real) {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}

func inFolders(patterns []string) []string {
	var dirs []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, matches...)
		}
	}
	return dirs
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect reports whether dir holds both programs, and their version. Packages of the client alone hold neither.
func inspect(ctx context.Context, dir string) (programs, bool) {
	found := programs{dir: dir}
	if _, err := os.Stat(found.initdb()); err != nil {
		return programs{}, false
	}
	out, err := exec.CommandContext(ctx, found.postgres(), "--version").Output()
	if err != nil {
		return programs{}, false
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return programs{}, false
	}
	found.major, err = strconv.Atoi(string(match[1]))
	return found, err == nil
}

// installHint names the package of the first package manager that this system has.
func installHint(want int) string {
	version := max(want, MinMajor)
	debian, fedora := "postgresql", "postgresql-server"
	if want > 0 {
		debian = fmt.Sprintf("postgresql-%d", want)
	}
	for _, manager := range []struct{ program, command string }{
		{"apt-get", "apt-get install " + debian},
		{"dnf", "dnf install " + fedora},
		{"zypper", fmt.Sprintf("zypper install postgresql%d-server", version)},
		{"apk", fmt.Sprintf("apk add postgresql%d", version)},
		{"pacman", "pacman -S postgresql"},
		{"brew", fmt.Sprintf("brew install postgresql@%d", version)},
	} {
		if _, err := exec.LookPath(manager.program); err == nil {
			return manager.command
		}
	}
	return fmt.Sprintf("your system's package of the PostgreSQL server, %d or newer", version)
}
