#!/bin/sh
# fuzz.sh TIME FOLDER...: fuzzes every target below the folders for so long each; called by `make fuzz`.
set -eu
time=$1
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
grep -rl '^func Fuzz' --include='*_test.go' "$@" | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "$target in $(dirname "$file"), $time"
		# Go's fuzzer may report its own deadline as a failure, without an input that fails.
		if ! ${GO:-go} test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" >"$out" 2>&1 &&
			! { grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input' "$out"; }; then
			cat "$out"
			exit 1
		fi
		tail -n 1 "$out"
	done
done
