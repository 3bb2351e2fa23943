#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pgbouncer-probe RUN PORT: says which version answers at the socket in the folder RUN, and whether its clients wait. Clients that still wait
# although the time is over for which they were to (RUN/pgbouncer.hold) go on: who had them wait is gone.
set -eu
run=$1 port=$2
# The name of the user and that of the database are PgBouncer's own: over the socket it lets in who has the user of the process.
console() { PGCONNECT_TIMEOUT=2 psql --no-psqlrc --no-align --tuples-only --quiet --field-separator== --host="$run" --port="$port" --username=pgbouncer --dbname=pgbouncer "$@"; }

said=$(console --command="SHOW VERSION" --command="SHOW STATE")
case $said in *paused=yes*)
  until=$(cut -d " " -f 1 "$run/pgbouncer.hold" 2>/dev/null) || until=0
  if [ "$(date +%s)" -gt $((until + 2)) ]; then
    echo "pgbouncer-probe: clients waited for nobody" >&2
    console --command=RESUME >/dev/null
    rm -f "$run/pgbouncer.hold"
  fi
  ;;
esac
printf '%s\n' "$said" | sed 's/^PgBouncer /version=/'
