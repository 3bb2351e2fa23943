#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Loads what modules require into the module cache, several modules at a time, so that no build waits for it later. It never
# fails: a module that cannot be loaded and is needed fails the build that needs it, which says so.
# Usage: download.sh MODULE... with the folders of the modules.
set -uo pipefail

command -v go >/dev/null || exit 0
export GOWORK=off

# The pins of the dev cluster's parts are not tidy, and go would write to them: it reads a copy.
load() {
  local copy
  copy=$(mktemp -d)
  cp "$1/go.mod" "$copy/"
  cp "$1/go.sum" "$copy/" 2>/dev/null
  (cd "$1" && go mod download -modfile="$copy/go.mod") >"$copy/said" 2>&1 ||
    printf 'not all that %s requires was loaded: %s\n' "$1" "$(tail -n 1 "$copy/said")"
  rm -rf "$copy"
}
export -f load

printf '%s\n' "$@" | xargs -P 6 -I{} bash -c 'load {}'
exit 0
