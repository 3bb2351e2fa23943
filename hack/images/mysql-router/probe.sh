#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mysqlrouter-probe RUN PORT...: says the version of the Router that has been started, as the file mysqlrouter.version in the folder RUN has it,
# and at which of the ports it takes connections. A Router listens at a port only while it knows a server for it, but for one that has not read
# yet who is a member: of that the file mysqlrouter.state.json there names nobody-yet.invalid. Nothing connects to it: each connection would be one
# to a server.
set -eu
run=$1
shift
echo "version=$(cat "$run/mysqlrouter.version")"
listening=
for port; do
  if grep -qs nobody-yet.invalid "$run/mysqlrouter.state.json"; then
    continue
  fi
  # The state 0A is LISTEN.
  if grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") [0-9A-F]+:0000 0A " /proc/net/tcp /proc/net/tcp6; then
    listening="$listening $port"
  fi
done
echo "listening=${listening# }"
