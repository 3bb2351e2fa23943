#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# postgresql-upgrade brings the data of a volume from one major version to another, and back.
#
#   check HOST FROM TO MEMBERS  asks the primary, which serves, what would be in the way of it, and says from which version it goes; it changes nothing
#   convert FROM TO             makes data of version TO beside that of FROM, compares both, and puts it in the other's place, which stays beside
#   undo FROM TO                takes back what convert did, and drops what it made: for data that nobody has written to
#   rollback FROM TO            puts the data of before back in its place; that of version TO stays beside
#   forward FROM TO             takes back what rollback did
#
# All but check are for a volume that no server runs on. Each can be cut off anywhere, and goes on when it is begun again: folders get the
# names that count only when they are whole, and the mark in the data says what it is.
set -eu
dir=/data data=/data/pgdata before=/data/pgdata.before after=/data/pgdata.after fresh=/data/pgdata.upgrade
# source is what pg_upgrade reads: the data, or a copy of it where that has what the other version's programs do not know.
source=$data copy=/data/pgdata.upgrade.source
mark=zeroinfra.upgrade said=${TERMINATION_LOG:-/dev/termination-log}
# What a server needs beside the data: its log for a few minutes, and catalogs of its own, in KiB.
margin=196608
work=$(mktemp -d /tmp/upgrade.XXXXXX) serving=
trap 'leave' EXIT
trap 'exit 143' TERM INT
# leave ends what is left of a server that this script started.
leave() {
  [ -z "$serving" ] || "$(programs "$(version "$serving")")/pg_ctl" -D "$serving" -w -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$work"
}

refuse() { echo "postgresql-upgrade: $*" >&2; exit 1; }
tell() { echo "postgresql-upgrade: $*" >&2; }
programs() { echo "/usr/lib/postgresql/$1/bin"; }
version() { cat "$1/PG_VERSION" 2>/dev/null || true; }
# noted FOLDER FIELD is what the mark in a folder says.
noted() { sed -n "s/^$2=//p" "$1/$mark" 2>/dev/null || true; }
# note FOLDER LINE... writes the mark.
note() {
  folder=$1; shift
  printf '%s\n' "$@" >"$folder/$mark.new"
  sync "$folder/$mark.new"
  mv "$folder/$mark.new" "$folder/$mark"
  sync "$folder"
}
# move FROM TO is for good when it returns.
move() { mv "$1" "$2"; sync "$dir"; }
drop() { rm -rf "$1"; sync "$dir"; }
# control VERSION FOLDER FIELD is of the data's control file.
control() { "$(programs "$1")/pg_controldata" "$2" | sed -n "s/^$3: *//p"; }
# others LIST NUMBER is the list without a number.
others() { for one in $1; do [ "$one" = "$2" ] || printf '%s ' "$one"; done; }
now() { date -u +%FT%TZ; }

# room is what is free of the volume, in KiB.
room() { stat -f -c '%a %S' "$dir" | { read -r blocks size; echo $((blocks * (size / 1024))); }; }

# alone has the volume to itself, as a process manager that runs a server has.
alone() {
  exec 9<>"$dir/.zeroinfra.lock"
  flock -n 9 || refuse "a server has the volume: it has to be stopped"
}

# archiving has log that is written here wait for the archive of a server that has one: after a way back that goes on, and may have no gap.
archiving() {
  if [ -n "$(ls "$data/pg_wal/archive_status" 2>/dev/null)" ]; then echo "-c archive_mode=on -c archive_command=false"; else echo "-c archive_mode=off"; fi
}

# serve VERSION FOLDER has a server let this script in, and nobody else.
serve() {
  rm -f "$2/postmaster.pid"
  serving=$2
  echo "local all postgres trust" >"$work/hba.conf"
  "$(programs "$1")/pg_ctl" -D "$2" -w -t 3600 -l "$work/log" -o "-c listen_addresses='' -c unix_socket_directories=$work -c unix_socket_permissions=0700 \
    -c hba_file=$work/hba.conf -c autovacuum=off -c max_locks_per_transaction=512 -c shared_preload_libraries='' $(archiving)" start >/dev/null ||
    { tail -n 5 "$work/log" >&2; refuse "the server of version $1 does not start on $2"; }
}
rest() {
  "$(programs "$1")/pg_ctl" -D "$2" -w -t 3600 -m fast stop >/dev/null || refuse "the server of version $1 does not stop on $2"
  serving=
}
# ask VERSION DATABASE is what a server says to the statement that comes in.
ask() { "$(programs "$1")/psql" -X -A -t -q -v ON_ERROR_STOP=1 -h "${PGHOST:-$work}" -U postgres -d "$2" -f -; }
databases() { echo "SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1" | ask "$1" postgres; }

# contents VERSION is what both versions have to have: roles, databases, each object of users with the size of what it holds, and the number of
# rows of what is not large. The order is that of bytes: that of a database may be another one with other libraries.
contents() {
  ask "$1" postgres >"$work/part" <<'SQL'
SELECT 'role ' || rolname || rolsuper || rolcanlogin || md5(coalesce(rolpassword, '')) FROM pg_authid WHERE rolname !~ '^pg_';
SELECT 'database ' || datname || ' ' || datdba::regrole || ' ' || pg_encoding_to_char(encoding) || ' ' || datcollate || ' ' || datconnlimit FROM pg_database WHERE datname <> 'template0';
SQL
  LC_ALL=C sort "$work/part"
  databases "$1" | while read -r name; do
    echo "in $name"
    ask "$1" "$name" >"$work/part" <<'SQL'
\set objects '(SELECT c.oid, relname, relkind, relispopulated, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ \'^pg_\' AND n.nspname <> \'information_schema\') o'
SELECT 'relation ' || nspname || '.' || relname || ' ' || relkind::text || ' ' || coalesce(pg_relation_size(oid), 0) FROM :objects;
SELECT 'rows ' || nspname || '.' || relname || ' ' || (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM ONLY %I.%I', nspname, relname), false, true, '')))[1]::text
  FROM :objects WHERE (relkind = 'r' OR relkind = 'm' AND relispopulated) AND pg_relation_size(oid) <= 8388608;
SELECT 'functions ' || count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema';
-- What is not null is a constraint by itself only in later versions.
SELECT 'constraints ' || count(*) FROM pg_constraint x JOIN pg_namespace n ON n.oid = connamespace WHERE contype <> 'n' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema';
SELECT 'triggers ' || count(*) FROM pg_trigger WHERE NOT tgisinternal;
SELECT 'extensions ' || count(*) FROM pg_extension;
SELECT 'large objects ' || count(*) FROM pg_largeobject_metadata;
SQL
    LC_ALL=C sort "$work/part"
  done
}

# check: what pg_upgrade would refuse once nobody is served any more, and what it would lose without a word.
check() {
  host=$1 from=$2 to=$3 members=$4
  export PGHOST="$host" PGCONNECT_TIMEOUT=10
  [ ! -e /zeroinfra/certs/ca.crt ] || export PGSSLMODE=verify-ca PGSSLROOTCERT=/zeroinfra/certs/ca.crt
  share=/usr/share/postgresql/$to/extension libraries=/usr/lib/postgresql/$to/lib
  is=$(echo "SHOW server_version_num" | ask "$to" postgres | sed 's/....$//')
  [ "$is" -lt "$to" ] || refuse "the primary runs version $is, and version $to can be reached from an earlier one alone"
  [ "$is" = "$from" ] || refuse "the primary runs version $is, and version $to can be reached from $from alone"
  replicas=$(($(echo "$members" | grep -o '"' | wc -l) / 2 - 1))
  ask "$to" postgres >"$work/wrong" <<SQL
SET synchronous_commit = local;
CREATE TEMPORARY TABLE room (line text);
COPY room FROM PROGRAM 'stat -f -c "%a %S" /data; ls -d /data/pgdata.before /data/pgdata.after 2>/dev/null || true';
SELECT 'it has the data of an upgrade before, ' || string_agg(line, ' ') || ': run CommitUpgrade first, which drops it' FROM room WHERE line LIKE '/data/%' HAVING count(*) > 0;
SELECT format('the volume lacks %s MiB of room for a copy of the data, which takes %s MiB: let storage.size grow', ceil((need - free) / 1024), ceil(need / 1024)) FROM
  (SELECT split_part(line, ' ', 1)::numeric * split_part(line, ' ', 2)::numeric / 1024 AS free FROM room WHERE line NOT LIKE '/data/%') f,
  (SELECT sum(pg_database_size(oid)) / 1024 + $margin AS need FROM pg_database) n WHERE free < need;
SELECT format('of %s replicas %s stream from the primary: wait until all do', $replicas, count(*)) FROM pg_stat_replication WHERE state = 'streaming' AND application_name ~ '-[0-9]+\$' HAVING count(*) < $replicas;
SELECT 'there are prepared transactions: commit or roll back ' || string_agg(quote_literal(gid), ', ') FROM pg_prepared_xacts HAVING count(*) > 0;
SELECT 'a database is not whole, since its deletion was cut off: drop ' || string_agg(quote_ident(datname), ', ') FROM pg_database WHERE datconnlimit = -2 HAVING count(*) > 0;
SELECT 'a database lets nobody in: ' || string_agg(quote_ident(datname), ', ') || ': ALTER DATABASE … ALLOW_CONNECTIONS true, or drop it' FROM pg_database
  WHERE NOT datallowconn AND datname <> 'template0' AND datconnlimit <> -2 HAVING count(*) > 0;
SELECT 'there are tablespaces, which are not upgraded: ' || string_agg(spcname, ', ') FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global') HAVING count(*) > 0;
SELECT 'there are logical replication slots, which an upgrade loses: have who reads from them catch up, and drop ' || string_agg(slot_name, ', ') FROM pg_replication_slots WHERE slot_type = 'logical' HAVING count(*) > 0;
SELECT 'the archive fails: mend it first' FROM pg_stat_archiver WHERE current_setting('archive_mode') = 'on' AND last_failed_time > coalesce(last_archived_time, '-infinity');
SQL
  databases "$to" >"$work/databases"
  while read -r name; do
    ask "$to" "$name" >"$work/parts" <<'SQL'
SELECT 'extension ' || extname FROM pg_extension WHERE extname <> 'plpgsql';
SELECT DISTINCT 'library ' || substr(probin, 9) FROM pg_proc WHERE probin LIKE '$libdir/%';
SQL
    while read -r kind part; do
      case $kind in
        extension) [ -e "$share/$part.control" ] || echo "version $to has no extension $part: drop it from database $name" >>"$work/wrong" ;;
        library) [ -e "$libraries/$part.so" ] || echo "version $to has no library $part, which functions of database $name are in" >>"$work/wrong" ;;
      esac
    done <"$work/parts"
    ask "$to" "$name" >>"$work/wrong" <<'SQL'
SELECT format('a column of database %I has a type whose values another version cannot read: %s', current_database(), string_agg(format('%I.%I.%I (%s)', n.nspname, c.relname, a.attname, t.typname), ', '))
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
  WHERE NOT a.attisdropped AND c.relkind IN ('r', 'm', 'i') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND (current_setting('server_version_num')::int < 160000 AND t.typname IN ('aclitem', '_aclitem') OR t.typname IN ('regcollation', 'regconfig', 'regdictionary', 'regnamespace', 'regoper', 'regoperator', 'regproc', 'regprocedure')) AND t.typnamespace = 'pg_catalog'::regnamespace
  HAVING count(*) > 0;
SELECT format('an index of database %I is not valid: rebuild or drop %s', current_database(), string_agg(x.indexrelid::regclass::text, ', '))
  FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid WHERE c.relkind = 'i' AND NOT x.indisvalid HAVING count(*) > 0;
SQL
    [ "$from" -ge 18 ] || [ "$to" -lt 18 ] || ask "$to" "$name" >>"$work/wrong" <<'SQL'
SELECT format('a column of database %I can be null in a table and not in the one that it inherits from: ALTER TABLE … ALTER … SET NOT NULL for %s', current_database(), string_agg(format('%I.%I.%I', n.nspname, c.relname, a.attname), ', '))
  FROM pg_inherits i JOIN pg_attribute a ON a.attrelid = i.inhrelid JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE p.attnum > 0 AND p.attnotnull AND NOT a.attnotnull HAVING count(*) > 0;
SQL
  done <"$work/databases"
  [ ! -s "$work/wrong" ] || refuse "$(awk 'NR > 1 { printf "; " } { printf "%s", $0 }' "$work/wrong")"
  echo "from=$from" >"$said"
}

# finish puts fresh data, which is whole, in its place.
finish() {
  [ ! -e "$data" ] || move "$data" "$before"
  move "$fresh" "$data"
}

# prepared says whether there is fresh data of what the old one has now, whole and compared: a convert was cut off then.
prepared() {
  [ -e "$fresh/$mark" ] && [ "$(noted "$fresh" checkpoint)" = "$(control "$1" "$2" "Latest checkpoint location")" ]
}

# fit refuses data that cannot be converted as it is, and has the log replayed of a server that did not come to its end.
fit() {
  [ -e "$data" ] || refuse "there is no data in $data"
  [ "$(version "$data")" = "$1" ] || refuse "the data is of version $(version "$data"), and not of $1"
  [ ! -e "$data/standby.signal" ] && [ ! -e "$data/recovery.signal" ] || refuse "the data is that of a replica: only the primary's is upgraded"
  [ ! -e "$before" ] && [ ! -e "$after" ] || refuse "the data of an upgrade before is in the volume: run CommitUpgrade first, which drops it"
  if [ "$(control "$1" "$data" "Database cluster state")" != "shut down" ]; then
    tell "the server did not come to its end: its log is replayed"
    serve "$1" "$data"
    rest "$1" "$data"
  fi
}

# upgrade FROM TO FLAG... runs the program itself.
upgrade() {
  from=$1 to=$2; shift 2
  (cd "$work" && "$(programs "$to")/pg_upgrade" -b "$(programs "$from")" -B "$(programs "$to")" -d "$source" -D "$fresh" -U postgres -s "$work" -j 2 \
    -o "-c hba_file=$work/hba.conf -c max_locks_per_transaction=512 $(archiving)" -O "-c hba_file=$work/hba.conf -c max_locks_per_transaction=512" "$@") >"$work/out" 2>&1
}

# broken tells what the program said, and last the errors in the files that it points to.
broken() {
  find "$fresh/pg_upgrade_output.d" -name '*.txt' -exec cat {} + 2>/dev/null >>"$work/out" || true
  why=$(find "$fresh/pg_upgrade_output.d" -name '*.log' -exec grep -h -E 'ERROR:|FATAL:' {} + 2>/dev/null | sed 's/^.*\(ERROR\|FATAL\): *//' | sort -u | head -n 4 | awk '{ printf "%s; ", $0 }')
  [ -n "$why" ] || why=$(grep -v -E 'ok *$|^ *$|^-+$|^Failure|^Performing' "$work/out" | tail -n 8 | awk '{ printf "%s ", $0 }')
  cat "$work/out" >&2
  drop "$copy"
  drop "$fresh"
  refuse "pg_upgrade $1: $(echo "$why" | cut -c 1-500)"
}

# mode is how the data comes beside: as clones of its blocks where the file system can, else as copies, for which there has to be room.
mode() {
  if upgrade "$1" "$2" --check --clone; then
    echo clone
    return
  fi
  roomy $(($(du -sk "$data" | cut -f 1) - $(du -sk "$data/pg_wal" | cut -f 1)))
  echo copy
}

# roomy KIB refuses a volume that has no room for a copy.
roomy() {
  need=$(($1 + margin)) free=$(room)
  [ "$free" -ge "$need" ] || { drop "$fresh"; refuse "the volume lacks $(((need - free) / 1024 + 1)) MiB of room for a copy of the data, which takes $((need / 1024)) MiB: let storage.size grow"; }
}

# versioned says whether columns have an option that tells since when they are as they are, which later minor releases of some versions note, and
# whether the other version's server would refuse it.
versioned() { grep -q pg_attver "$(programs "$1")/postgres" && ! grep -q pg_attver "$(programs "$2")/postgres"; }

# apart makes a copy of the data without that option, for pg_upgrade to take the files of: that of before is not touched.
apart() {
  roomy "$(du -sk "$data" | cut -f 1)"
  cp -a "$data" "$copy"
  source=$copy
  serve "$1" "$copy"
  databases "$1" | while read -r name; do
    ask "$1" "$name" <<'SQL'
UPDATE pg_attribute SET attoptions = nullif(ARRAY(SELECT o FROM unnest(attoptions) o WHERE o !~ '^pg_attver='), '{}') WHERE attoptions::text ~ 'pg_attver=';
SQL
  done
  rest "$1" "$copy"
}

# mend rebuilds indexes that are in an order which the other version's libraries may have changed, and counts them.
mend() {
  databases "$1" | while read -r name; do
    ask "$1" "$name" <<'SQL'
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indexrelid = c.oid
  WHERE c.relkind = 'i' AND n.nspname !~ '^pg_' AND EXISTS (SELECT FROM unnest(i.indcollation) o JOIN pg_collation l ON l.oid = o
    WHERE l.collprovider = 'i' OR l.collprovider = 'd' AND (SELECT datlocprovider FROM pg_database WHERE datname = current_database()) = 'i');
SELECT format('REINDEX INDEX %I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indexrelid = c.oid
  WHERE c.relkind = 'i' AND n.nspname !~ '^pg_' AND EXISTS (SELECT FROM unnest(i.indcollation) o JOIN pg_collation l ON l.oid = o
    WHERE l.collprovider = 'i' OR l.collprovider = 'd' AND (SELECT datlocprovider FROM pg_database WHERE datname = current_database()) = 'i')
  \gexec
SELECT format('ALTER COLLATION %I.%I REFRESH VERSION', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
  WHERE l.collversion IS DISTINCT FROM pg_collation_actual_version(l.oid) AND l.collversion IS NOT NULL
  \gexec
SELECT format('ALTER DATABASE %I REFRESH COLLATION VERSION', current_database()) FROM pg_database
  WHERE datname = current_database() AND datcollversion IS NOT NULL AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid)
  \gexec
SQL
  done
}

convert() {
  from=$1 to=$2
  alone
  # It was cut off between the two last steps, or before it could say so.
  if [ -e "$before" ] && [ ! -e "$data" ] && prepared "$from" "$before"; then
    finish
  fi
  if [ "$(version "$data")" = "$to" ] && [ "$(noted "$data" state)" = Upgraded ] && [ -e "$before" ]; then
    report
    return
  fi
  fit "$from"
  if prepared "$from" "$data"; then
    finish
    report
    return
  fi
  drop "$copy"
  drop "$fresh"
  free=$(room)
  [ "$free" -ge "$margin" ] || refuse "the volume lacks $(((margin - free) / 1024 + 1)) MiB of room to begin with: let storage.size grow"
  system=$(control "$from" "$data" "Database system identifier")
  tell "what version $from has is counted"
  serve "$from" "$data"
  contents "$from" >"$work/had"
  rest "$from" "$data"
  "$(programs "$to")/initdb" -D "$fresh" -U postgres --auth-local=peer --auth-host=reject --encoding=UTF8 --locale=C.UTF-8 --data-checksums >"$work/initdb" 2>&1 ||
    { cat "$work/initdb" >&2; refuse "initdb of version $to failed"; }
  if versioned "$from" "$to"; then
    apart "$from"
    how=copy by=link
  else
    how=$(mode "$from" "$to") || exit 1
    by=$how
  fi
  upgrade "$from" "$to" --check "--$by" || broken "says that the data cannot be upgraded"
  tell "the data is upgraded from $from to $to by $how"
  upgrade "$from" "$to" "--$by" || broken "failed"
  drop "$copy"
  tell "what version $to has is compared"
  serve "$to" "$fresh"
  contents "$to" >"$work/has"
  reindexed=$(mend "$to" | sort -u | grep -c . || true)
  rest "$to" "$fresh"
  if ! busybox cmp -s "$work/had" "$work/has"; then
    busybox diff "$work/had" "$work/has" | head -n 20 >&2
    drop "$fresh"
    refuse "version $to does not have what version $from had: the log tells the differences"
  fi
  for file in .zeroinfra.password .zeroinfra.replication .zeroinfra.pooler .zeroinfra.app; do
    [ ! -e "$data/$file" ] || cp -p "$data/$file" "$fresh/$file"
  done
  # The history begins anew, and no server that goes on from the one before may take it for its own.
  term=$(sed -n 's/.*"term":\([0-9]*\).*/\1/p' "$dir/.zeroinfra.member" 2>/dev/null | head -n 1)
  [ -z "$term" ] || echo "1 $term" >"$fresh/zeroinfra.timelines"
  rm -rf "$fresh/pg_upgrade_output.d"
  busybox find "$fresh" -maxdepth 1 -type f -exec sync {} +
  number=$(control "$to" "$fresh" "Database system identifier")
  note "$fresh" state=Upgraded "from=$from" "to=$to" "system=$number" "archive=$number" "replaces=$system $(noted "$data" replaces)" \
    "pod=${JOB_POD:-}" "at=$(now)" "checkpoint=$(control "$from" "$data" "Latest checkpoint location")" "mode=$how" "relations=$(grep -c '^relation ' "$work/had" || true)" "reindexed=$reindexed"
  finish
  report
}

# report says what the Operation keeps.
report() {
  for name in mode relations reindexed; do echo "$name=$(noted "$data" "$name")"; done >"$said"
}

undo() {
  from=$1 to=$2
  alone
  drop "$copy"
  if [ -e "$before" ]; then
    if [ -e "$data" ]; then
      [ "$(version "$data")" = "$to" ] && [ "$(version "$before")" = "$from" ] || refuse "the data is of version $(version "$data") and that beside it of $(version "$before"): nothing is put back"
      drop "$fresh"
      move "$data" "$fresh"
    fi
    move "$before" "$data"
  fi
  drop "$fresh"
}

rollback() {
  from=$1 to=$2
  alone
  if [ -e "$data" ] && [ "$(version "$data")" = "$from" ] && [ -e "$after" ] && [ ! -e "$before" ]; then
    return
  fi
  [ -e "$before" ] || refuse "the data of before the upgrade is not in this volume$(where)"
  if [ -e "$data" ]; then
    [ "$(version "$data")" = "$to" ] && [ "$(version "$before")" = "$from" ] || refuse "the data is of version $(version "$data") and that beside it of $(version "$before"): nothing is put back"
    [ ! -e "$after" ] || refuse "there is $after already"
    old=$(control "$from" "$before" "Database system identifier") new=$(control "$to" "$data" "Database system identifier")
    note "$before" state=RolledBack "from=$from" "to=$to" "system=$old" "archive=$(noted "$before" archive)" "replaces=$new $(others "$(noted "$data" replaces)" "$old")" "pod=${JOB_POD:-}" "at=$(now)"
    move "$data" "$after"
  fi
  move "$before" "$data"
}

# where the data of before is, as far as somebody knows.
where() {
  pod=$(noted "$data" pod)
  [ -z "$pod" ] || [ "$pod" = "${JOB_POD:-}" ] || echo ", but in that of pod $pod: run a Switchover to it first"
}

forward() {
  from=$1 to=$2
  alone
  [ -e "$after" ] || return 0
  [ ! -e "$data" ] || { [ "$(version "$data")" = "$from" ] || refuse "the data is of version $(version "$data"): nothing is put back"; move "$data" "$before"; }
  move "$after" "$data"
}

[ $# -gt 0 ] || refuse "say what to do: check, convert, undo, rollback or forward"
do=$1; shift
case $do in
  check | convert | undo | rollback | forward) "$do" "$@" ;;
  *) refuse "$do is none of check, convert, undo, rollback and forward" ;;
esac
