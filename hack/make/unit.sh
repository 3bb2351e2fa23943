#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the unit tests of modules, two modules at a time, and fails when one fails. What a module prints comes at its end. Programs of
# tests have no symbols for debuggers, which is a third of the time of linking, and lint has run vet.
# Usage: unit.sh EVENTS MODULE... with the folder for the events of the tests.
set -euo pipefail

events=$1
shift
mkdir -p "$events"
export events

unit() {
  local name=${1//\//-} packages=(./...) flags=()
  # The tests of the modules test and hack/generate read files of all others, which the cache of results does not see; those in e2e
  # need a cluster.
  if [ "$1" = test ]; then packages=(./unit/... ./bench/... ./cmd/...) flags=(-count=1); fi
  if [ "$1" = hack/generate ]; then flags=(-count=1); fi
  cd "$1"
  GOWORK=off gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary=skipped \
    --jsonfile "$events/$name.json" -- -timeout 15m -ldflags=-w -vet=off "${flags[@]}" "${packages[@]}" >"$events/$name.txt" 2>&1 || failed=1
  printf '=== unit: %s\n%s\n' "$1" "$(<"$events/$name.txt")"
  exit "${failed:-0}"
}
export -f unit

printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'unit {}'
