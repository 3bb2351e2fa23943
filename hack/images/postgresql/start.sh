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

# alone has the server carry out the lines of its input, before anybody is let in and with nothing in the log. The first that fails ends it.
alone() {
  "$programs/postgres" --single -D "$data" -c config_file="$config" -c exit_on_error=on -c log_min_error_statement=panic -c log_statement=none -c log_min_duration_statement=-1 postgres
}
# lacks CREDENTIAL FILE: the pod has the credential, and the data another revision of its password.
lacks() { [ -e "/zeroinfra/secrets/$1" ] && [ "$(cat "$data/$2" 2>/dev/null)" != "$(cat "/zeroinfra/secrets/$1/revision")" ]; }
# keep FILE REVISION notes it.
keep() { printf %s "$2" >"$data/$1.new"; sync "$data/$1.new"; mv "$data/$1.new" "$data/$1"; }
# password ROLE CREDENTIAL is the statement that gives a role its password.
password() {
  [ "$(wc -l <"/zeroinfra/secrets/$2/password")" -le 1 ] || refuse "the password of the credential $2 has a line break: take one without"
  printf "ALTER ROLE %s PASSWORD '%s'\n" "$1" "$(sed "s/'/''/g; q" "/zeroinfra/secrets/$2/password")"
}
# role ROLE ATTRIBUTES is the statement that makes a role.
role() { echo "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$1') THEN CREATE ROLE $1 LOGIN $2; END IF; END \$\$"; }

# database NAME OWNER is the statement that makes a database. Unlike a role, it cannot be made on a condition.
database() {
  found=$(echo "SELECT 'there' AS found FROM pg_database WHERE datname = '$1'" | alone) || refuse "the server has not said whether there is a database $1"
  case $found in
    *'found = "there"'*) ;;
    *) echo "CREATE DATABASE $1 WITH TEMPLATE template0 OWNER $2" ;;
  esac
}

# statements are what the data lacks: a line for each. They have passwords, and are on no disk.
statements() {
  if lacks superuser .zeroinfra.password; then
    password postgres superuser
  fi
  if lacks replication .zeroinfra.replication; then
    # Whoever follows copies the log, looks where the data went elsewhere, and rewinds its own to there.
    role zeroinfra_replication REPLICATION
    cat <<'STATEMENTS'
GRANT pg_monitor, pg_checkpoint TO zeroinfra_replication
GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text, boolean, boolean), pg_catalog.pg_stat_file(text, boolean), pg_catalog.pg_read_file(text, bigint, bigint, boolean), pg_catalog.pg_read_binary_file(text), pg_catalog.pg_read_binary_file(text, bigint, bigint, boolean) TO zeroinfra_replication
STATEMENTS
    password zeroinfra_replication replication
  fi
  if lacks pooler .zeroinfra.pooler; then
    # A pooler asks for the verifiers of those who may log in, and for nothing else.
    role zeroinfra_pooler ""
    cat <<'STATEMENTS'
CREATE SCHEMA IF NOT EXISTS zeroinfra
CREATE OR REPLACE FUNCTION zeroinfra.pooler_user(who text) RETURNS TABLE (name text, verifier text) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = who AND rolcanlogin AND rolname NOT IN ('zeroinfra_pooler', 'zeroinfra_replication') AND coalesce(rolvaliduntil > now(), true) $$
REVOKE ALL ON FUNCTION zeroinfra.pooler_user(text) FROM PUBLIC
GRANT USAGE ON SCHEMA zeroinfra TO zeroinfra_pooler
GRANT EXECUTE ON FUNCTION zeroinfra.pooler_user(text) TO zeroinfra_pooler
STATEMENTS
    password zeroinfra_pooler pooler
  fi
  if lacks app .zeroinfra.app; then
    # Clients log in with it, to a database of its own.
    role app ""
    password app app
    database app app
  fi
}

# Who follows has the passwords that the writer has.
if [ ! -e "$data/standby.signal" ] && [ ! -e "$data/recovery.signal" ]; then
  # Revisions before passwords: should both change in between, the password is set once more at the next start.
  followers=$(cat /zeroinfra/secrets/replication/revision 2>/dev/null || true) pooler=$(cat /zeroinfra/secrets/pooler/revision 2>/dev/null || true)
  app=$(cat /zeroinfra/secrets/app/revision 2>/dev/null || true)
  todo=$(statements) || exit 1
  if [ -n "$todo" ]; then
    printf '%s\n' "$todo" | alone >/dev/null || refuse "the server has not carried out what its log names: roles, their rights, their passwords or a database"
    keep .zeroinfra.password "$revision"
    [ -z "$followers" ] || keep .zeroinfra.replication "$followers"
    [ -z "$pooler" ] || keep .zeroinfra.pooler "$pooler"
    [ -z "$app" ] || keep .zeroinfra.app "$app"
  fi
fi
exec "$programs/postgres" -D "$data" -c config_file="$config"
