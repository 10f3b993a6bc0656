package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// release is a line of deploy/test/releases.
type release struct{ version, commit string }

// parseReleases reads "version commit" lines, oldest first; # begins a comment.
func parseReleases(text string) (list []release, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: %q is not a version and a commit", number, strings.TrimSpace(line))
		}
		list = append(list, release{fields[0], fields[1]})
	}
	return list, nil
}

// repository is a clone of this project.
type repository struct{ folder string }

func (r repository) git(arguments ...string) (string, error) {
	command := exec.Command("git", append([]string{"-C", r.folder}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// find returns the commit of a release: the one of the list, or the newest whose version.txt says so when the history was
// rewritten since.
func (r repository) find(wanted release) (string, error) {
	if shallow, err := r.git("rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		return "", fmt.Errorf("this clone has no history to build %s from; `git fetch --unshallow` gets it (%v)", wanted.version, err)
	}
	if _, err := r.git("merge-base", "--is-ancestor", wanted.commit, "HEAD"); err == nil {
		return wanted.commit, nil
	}
	commits, err := r.git("rev-list", "HEAD")
	if err != nil {
		return "", err
	}
	for commit := range strings.FieldsSeq(commits) {
		if version, err := r.git("show", commit+":version.txt"); err == nil && version == wanted.version {
			return commit, nil
		}
	}
	return "", fmt.Errorf("no commit in the history of this clone is version %s", wanted.version)
}

// build makes the program of a commit in folder and returns its path.
func (r repository) build(commit, folder string) (string, error) {
	source := filepath.Join(folder, commit)
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", err
	}
	archive := filepath.Join(folder, commit+".tar")
	if _, err := r.git("archive", "--output", archive, commit); err != nil {
		return "", err
	}
	for _, command := range []*exec.Cmd{
		exec.Command("tar", "-xf", archive, "-C", source),
		exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(source, "waggle-release"), "."),
	} {
		command.Dir = source
		if output, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", command, err, output)
		}
	}
	return filepath.Join(source, "waggle-release"), nil
}

func TestReleasesAreFoundInTheHistory(t *testing.T) {
	t.Parallel()
	list, err := parseReleases("# a comment\n\n0.1.0 abc # the first\n0.2.0 def\n")
	require.NoError(t, err)
	require.Equal(t, []release{{"0.1.0", "abc"}, {"0.2.0", "def"}}, list)
	_, err = parseReleases("0.1.0 abc\n0.2.0\n")
	require.ErrorContains(t, err, "line 2")

	r := repository{t.TempDir()}
	git := func(arguments ...string) string {
		output, err := r.git(append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, arguments...)...)
		require.NoError(t, err)
		return output
	}
	git("init", "-q", "-b", "main")
	commit := func(version string) string {
		require.NoError(t, os.WriteFile(filepath.Join(r.folder, "version.txt"), []byte(version+"\n"), 0o600))
		git("add", "-A")
		git("commit", "-q", "--allow-empty", "-m", version)
		return git("rev-parse", "HEAD")
	}
	first := commit("0.1.0")
	last := commit("0.1.0")
	git("checkout", "-q", "-b", "rewritten")
	aside := commit("0.1.0")
	git("checkout", "-q", "main")
	commit("0.2.0")
	for wanted, commit := range map[release]string{{"0.1.0", first}: first, {"0.1.0", aside}: last, {"0.1.0", strings.Repeat("f", 40)}: last} {
		found, err := r.find(wanted)
		require.NoError(t, err)
		require.Equal(t, commit, found)
	}
	_, err = r.find(release{"0.0.9", strings.Repeat("f", 40)})
	require.ErrorContains(t, err, "no commit in the history of this clone is version 0.0.9")

	shallow := repository{t.TempDir()}
	_, err = r.git("clone", "-q", "--depth", "1", "file://"+r.folder, shallow.folder)
	require.NoError(t, err)
	_, err = shallow.find(release{"0.1.0", first})
	require.ErrorContains(t, err, "git fetch --unshallow")
}
