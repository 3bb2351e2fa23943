#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Unpacks the image of MySQL Router into a folder, with programs there that run it beside the machine's own libraries.
# Usage: mysqlrouter.sh FOLDER.
set -euo pipefail

to=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$(dirname "$0")/../images" && GOWORK=off CGO_ENABLED=0 go run . build mysql-router --out "$work" >/dev/null)
archive=$(echo "$work"/mysql-router-*.tar)

rm -rf "$to"
mkdir -p "$to/root"
layers=$(tar -xOf "$archive" manifest.json | sed 's/.*"Layers":\[\([^]]*\)\].*/\1/' | tr -d '"' | tr ',' ' ')
for layer in $layers; do
  tar -xOf "$archive" "$layer" | tar -xzf - -C "$to/root" --no-same-owner
done

for program in mysqlrouter mysqlrouter_keyring mysqlrouter_passwd; do
  cat >"$to/$program" <<SCRIPT
#!/bin/sh
root="$to/root"
exec "\$root"/lib*/ld-linux-*.so.* --library-path "\$(echo "\$root"/usr/lib/*-linux-gnu):\$root/usr/lib/mysql-router:\$root/usr/lib/mysqlrouter/private" "\$root/usr/bin/$program" "\$@"
SCRIPT
  chmod +x "$to/$program"
done
