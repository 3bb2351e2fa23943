#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# postgresql-start PROGRAMS CONFIG: makes the data where there is none, and becomes the server. Whoever calls it keeps any other process
# away from /data, and has ended all that the server before left behind.
set -eu
programs=$1 config=$2
data=/data/pgdata initialized=/data/.zeroinfra.initialized secret=/zeroinfra/secrets/superuser

refuse() { echo "postgresql-start: $*" >&2; exit 1; }

# The revision before the password: should both change in between, the password is set once more at the next start.
revision=$(cat "$secret/revision")
[ "$(wc -l <"$secret/password")" -le 1 ] || refuse "the password of the superuser has a line break: take one without"
major=$("$programs/postgres" --version | sed 's/.* \([0-9]*\)[.].*/\1/')

if [ ! -e "$data" ]; then
  # The folder comes by its last name only when it is whole. The mark outlives it: where the data was, there is never an empty database in its place.
  [ ! -e "$initialized" ] || refuse "there was data here, and $data is gone: put it back, or delete the volume to begin anew"
  rm -rf "$data.new"
  "$programs/initdb" -D "$data.new" -U postgres --pwfile="$secret/password" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --data-checksums
  printf %s "$revision" >"$data.new/.zeroinfra.password"
  mv "$data.new" "$data"
  date -u +%FT%TZ >"$initialized"
  sync "$data" "$initialized" /data
fi
[ -e "$initialized" ] || { date -u +%FT%TZ >"$initialized"; sync "$initialized" /data; }
[ "$(cat "$data/PG_VERSION")" = "$major" ] || refuse "the data is of PostgreSQL $(cat "$data/PG_VERSION"), and this is $major: a major upgrade is not a change of the image"

# What a volume's owner is given by the kubelet is more than the server takes.
chmod 0700 "$data"
# Settings come from the operator alone.
: >"$data/postgresql.auto.conf"
# Numbers of processes begin anew with each container: these may be somebody else's now.
rm -f "$data/postmaster.pid" /zeroinfra/run/.s.PGSQL.5432 /zeroinfra/run/.s.PGSQL.5432.lock

if [ "$(cat "$data/.zeroinfra.password" 2>/dev/null)" != "$revision" ]; then
  # Nobody is let in while the password changes, and nothing of it is logged.
  sed "s/'/''/g; s/^/ALTER ROLE postgres PASSWORD '/; s/\$/'/; q" "$secret/password" |
    "$programs/postgres" --single -D "$data" -c config_file="$config" -c log_min_error_statement=panic -c log_statement=none -c log_min_duration_statement=-1 postgres >/dev/null
  printf %s "$revision" >"$data/.zeroinfra.password.new"
  sync "$data/.zeroinfra.password.new"
  mv "$data/.zeroinfra.password.new" "$data/.zeroinfra.password"
fi
exec "$programs/postgres" -D "$data" -c config_file="$config"
