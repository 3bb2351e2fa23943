#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the integration tests: packages side by side, on one API server that testserver starts, or on one of their own where they say
# why. The package of the engine is the longest: its tests run in several processes.
# Usage: integration.sh EVENTS OPERATOR... with the folder for the events of the tests. SKIP is a pattern of tests to leave out;
# with RACE=1 the race detector is on.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
events=$1
shift
engine=internal/engine
shards=3
# Symbols for debuggers are a third of the time of linking, and lint has run vet.
flags=(-tags integration -ldflags=-w -vet=off)
[ -z "${RACE:-}" ] || flags+=(-race)
export GOWORK=off

# packages prints the packages below the present folder that have integration tests.
packages() { { grep -rl --include=*_test.go '^//go:build integration' . || true; } | xargs -r -n1 dirname | sort -u; }

# job NAME COMMAND...: runs gotestsum and prints what it printed, and whether it failed, at its end.
job() {
  local name=$1 failed=0
  shift
  gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary=skipped --jsonfile "$events/$name.json" "$@" \
    >"$events/$name.txt" 2>&1 || failed=1
  printf '=== integration: %s\n%s\n' "$name" "$(<"$events/$name.txt")"
  return $failed
}

# in_module MODULE SIDE_BY_SIDE [PACKAGE...]: runs the integration tests of a module, those of so many packages at a time.
in_module() {
  local module=$1 side_by_side=$2 found
  shift 2
  cd "$root/$module"
  found=("$@")
  [ $# -gt 0 ] || mapfile -t found < <(packages)
  [ ${#found[@]} -gt 0 ] || return 0
  # A test that fails and then passes is counted as flaky, and named at the end of the run.
  job "${module//\//-}" --rerun-fails=1 --rerun-fails-max-failures=2 --packages="${found[*]}" -- \
    "${flags[@]}" -p "$side_by_side" -count=1 -timeout 30m -skip "${SKIP:-^$}"
}

# engine_shard N: runs each of the tests of the engine whose turn it is.
engine_shard() {
  cd "$root/platform-core/$engine"
  local names
  names=$("$TEST_PROGRAMS/engine.test" -test.list . | grep ^Test | grep -Ev "${SKIP:-^$}" | awk -v "n=$1" -v "of=$shards" 'NR % of == n' | paste -sd '|')
  job "engine-$1" --raw-command -- go tool test2json -t -p "github.com/zeroinfra/platform-core/$engine" \
    "$TEST_PROGRAMS/engine.test" -test.v=test2json -test.timeout 30m -test.run "^($names)\$"
}

# chain MODULE...: runs the integration tests of one module after the other.
chain() {
  local module failed=0
  for module in "$@"; do in_module "$module" 2 || failed=1; done
  return $failed
}

run_all() {
  local jobs=() failed=0 n others
  for ((n = 0; n < shards; n++)); do engine_shard "$n" & jobs+=($!); done
  mapfile -t others < <(cd "$root/platform-core" && packages | grep -vx "./$engine")
  in_module platform-core 3 "${others[@]}" & jobs+=($!)
  # Two chains that take about as long as each other and as the engine.
  mapfile -t others < <(printf '%s\n' "$@" | grep -vx batch-operator)
  chain "${others[@]}" & jobs+=($!)
  chain batch-operator test & jobs+=($!)
  for n in "${jobs[@]}"; do wait "$n" || failed=1; done
  return $failed
}

if [ -n "${TESTKIT_SERVER:-}" ]; then
  run_all "$@"
  exit
fi
mkdir -p "$events"
TEST_PROGRAMS=$(mktemp -d)
export TEST_PROGRAMS
trap 'rm -rf "$TEST_PROGRAMS"' EXIT
(cd "$root/agents" && go build -o "$TEST_PROGRAMS/" ./cmd/agent ./cmd/agent-ops)
cd "$root/platform-core"
go build -o "$TEST_PROGRAMS/" ./cmd/zictl ./sdk/testkit/testserver
go test -c "${flags[@]}" -o "$TEST_PROGRAMS/engine.test" "./$engine"
"$TEST_PROGRAMS/testserver" ${ALL:+--all} "$root/hack/make/integration.sh" "$events" "$@"
