#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks for what the build needs and installs the Debian packages that are
# missing, and those that are named beside them. The packages of the dev cluster
# are its own business (devcluster deps).
set -euo pipefail

need_go=1.26
if ! command -v go >/dev/null; then
  echo "cannot build: Go $need_go or newer is not installed; see https://go.dev/doc/install" >&2
  exit 1
fi
have_go=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
if [ "$(printf '%s\n%s\n' "$need_go" "$have_go" | sort -V | head -n 1)" != "$need_go" ]; then
  echo "cannot build: Go $have_go is too old; $need_go or newer is needed" >&2
  exit 1
fi

command -v dpkg-query >/dev/null || exit 0 # not Debian: the build itself needs nothing more

missing=()
for package in ca-certificates dpkg protobuf-compiler util-linux "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing Debian packages: ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
  echo "cannot install them without root: run 'sudo apt-get install ${missing[*]}' and try again" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Tests start servers of their own: the services of packages stay off.
export RUNLEVEL=1
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
