#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# redis-elected: a Redis whose primary is elected by Redis Sentinel.
#
#   start      becomes redis-server, as what the Sentinels say that it is
#   sentinel   becomes a Sentinel, which knows what it knew before, or what the others know
#   probe      runs redis-cli with the arguments that follow, for INFO, and adds whether a Sentinel names a server that writes
#   handover   has the Sentinels make the replica $1 the primary, without a write that is acknowledged and lost
#   failover   has the Sentinels make another server the primary, the one of the pod $1 or the best, although the present one may be down
#   elect      lets the Sentinels elect the server $1, whatever it has
#
# Environment: SELF, the DNS name of this pod (not for failover and elect); SENTINELS, all that there may be; SENTINEL_PASSWORD, of the user that Sentinels and replicas
# are; REDISCLI_AUTH, of the user default. For sentinel also PEERS, the Sentinels that are wanted, MEMBERS, all
# that there may be, and QUORUM; for start FIRST, the member that begins, and PRIORITY of a replica that can be elected. Both passwords are shown to others;
# what is accepted beside them is read below /zeroinfra/secrets when a process starts.
set -eu
umask 077

name=mymaster config=/zeroinfra/config secrets=/zeroinfra/secrets data=/data port=6379 sentinelPort=26379
TLS=
[ ! -e /zeroinfra/certs/ca.crt ] || TLS="--tls --cacert /zeroinfra/certs/ca.crt"
# The data of the instance is on this volume: without it, nothing here may ever become the primary.
mark=$data/.zeroinfra.elected

say() { echo "redis-elected: $*"; }
# told says a thing once, as long as it is so.
told() { [ "$1" = "${said:-}" ] || { said=$1; say "$1"; }; }

# cli runs a command at a host as the user default; internal at a host and port as the user of the Sentinels.
cli() { host=$1; shift; timeout 3 redis-cli -e -h "$host" -p "$port" $TLS --no-auth-warning "$@"; }
internal() { host=$1 at=$2; shift 2; REDISCLI_AUTH=$SENTINEL_PASSWORD timeout 1 redis-cli -h "$host" -p "$at" --user sentinel $TLS --no-auth-warning "$@" 2>/dev/null; }

# ask prints what a Sentinel knows in one line, and nothing when it does not answer: "blank" when it watches nobody, else "named HOST EPOCH
# SENTINELS REPLICAS".
ask() {
  printf 'SENTINEL %s\n' "GET-MASTER-ADDR-BY-NAME $name" "MASTER $name" | internal "$1" "$sentinelPort" | tr -d '\r' | awk '
    NR == 1 { host = $0 }
    NR == 2 && host == "" && /^ERR No such master/ { print "blank"; exit }
    NR > 2 && key == "" { key = $0; next }
    NR > 2 { primary[key] = $0; key = "" }
    # Where only the second question was answered, its first line stands where a host should.
    END { if (host ~ /[.:]/ && host !~ / / && "config-epoch" in primary) print "named", host, primary["config-epoch"], primary["num-other-sentinels"] + 1, primary["num-slaves"] }'
}

# askAll asks all that are given at once.
askAll() { for one in "$@"; do ask "$one" & done; wait; }

# newest prints the primary that is named with the highest epoch, how many name it, how many Sentinels there are, and how many replicas
# each of them knows at least: a new one elects nobody before it has heard of them.
newest() {
  awk '$1 == "named" { n++; host[n] = $2; epoch[n] = $3; all[n] = $4; replicas[n] = $5; if (!best || $3 > epoch[best]) best = n }
    END { if (!n) exit
      for (i = 1; i <= n; i++) if (host[i] == host[best]) { votes++; if (all[i] > total) total = all[i]; if (least == "" || replicas[i] < least) least = replicas[i] }
      print host[best], votes, total, least }'
}

# quoted is a word of a configuration file.
quoted() { printf '"%s"' "$(printf %s "$1" | sed 's/[\\"]/\\&/g')"; }

# others says whether another server could be elected.
others() {
  pod=${SELF%%.*}
  for n in 0 1 2 3 4; do
    internal "${pod%-*}-$n.${SELF#*.}" "$port" INFO replication | tr -d '\r' | awk -F: '$1 == "slave_priority" && $2 > 0 { print "one" }' &
  done | grep -q one
}

# acl prints the line of a user with a password, and with what its credential, which has the same name, is to be accepted with beside it, where that is mounted.
# Both files are of one state of the mount, which may be newer than the password here; whether there is such a thing is asked of the mount, which always has
# a whole state. A folder that is being removed cannot be read: the start fails then, and is tried again.
acl() {
  mounted=$(cd -P "$secrets/$1" && { [ ! -e "$secrets/$1/also" ] || sha256sum password also; })
  printf 'user %s reset on #%s %s %s\n' "$1" "$(printf %s "$2" | sha256sum | cut -d' ' -f1)" "$(printf %s "$mounted" | awk '{ printf "#%s ", $1 }')" "$3"
}

# field prints a field of INFO that it reads.
field() { tr -d '\r' | awk -F: -v name="$1" '$1 == name { print $2; exit }'; }

# settled: most Sentinels name this member, so that it begins no more.
settled() {
  until set -- $(askAll $SENTINELS | newest) && [ "${1:-}" = "$SELF" ] && [ "$2" -gt $(($3 / 2)) ]; do sleep 0.5; done
  marked
}

# marked says that the volume has the data.
marked() { date -u +%FT%TZ >"$mark"; sync "$mark" "$data"; }

# serve becomes redis-server. It reads its configuration as its standard input: what a Sentinel has it write to its file would be gone with
# the next plan. What is left of the arguments comes last and counts.
serve() { said=; exec redis-server - "$@" <$config/redis.conf; }

# eligible lets this replica be elected once it has all that the primary has, in memory and on disk: before that, one that was away would be as
# good as any other after all of them were.
eligible() {
  until info=$(cli 127.0.0.1 INFO 2>/dev/null) && [ "$(echo "$info" | field master_link_status)" = up ] &&
    [ "$(echo "$info" | field aof_rewrite_in_progress)$(echo "$info" | field aof_rewrite_scheduled)" = 00 ]; do
    # Whoever takes writes needs nothing of this.
    [ "$(echo "${info:-}" | field role)" != master ] || exit 0
    sleep 0.5
  done
  [ -e "$mark" ] || marked
  until cli 127.0.0.1 CONFIG SET replica-priority "$PRIORITY" >/dev/null 2>&1; do sleep 0.5; done
}

start() {
  mkdir -p $config/users
  # All that Sentinels and replicas do. A password of users that changes is none of theirs.
  { acl sentinel "$SENTINEL_PASSWORD" '&* -@all +multi +exec +slaveof +replicaof +ping +role +info +subscribe +publish +config|rewrite +client|setname +client|kill +script|kill +psync +replconf'
    acl default "$REDISCLI_AUTH" '~* &* +@all'
  } >$config/users/sentinel.conf
  waited=0
  while :; do
    answers=$(askAll $SENTINELS)
    set -- $(echo "$answers" | newest)
    if [ $# -eq 0 ]; then
      # First creation: the first member begins when each of the Sentinels that there are at least has never known of any.
      blank=$(echo "$answers" | grep -c blank || true)
      if [ "$SELF" = "$FIRST" ] && [ "$blank" -ge 3 ] && { [ ! -e "$mark" ] || [ "$(cat "$mark")" = first ]; }; then
        echo first >"$mark"
        sync "$mark" "$data"
        say "no member has any data yet: this one begins as the primary"
        ( settled & ) </dev/null
        serve
      fi
      told "waiting for Sentinels that know the primary: $blank answer, and know none"
    elif [ "$2" -lt 2 ] || [ "$2" -le $(($3 / 2)) ]; then
      told "waiting for most Sentinels to name one primary: $2 of $3 name $1"
    elif [ "$1" != "$SELF" ]; then
      changed=$(stat -c %y $data/appendonlydir/*.aof 2>/dev/null | sort | tail -n 1)
      say "$2 of $3 Sentinels name $1: following it; the data here was last changed at ${changed:-no time}"
      ( eligible & ) </dev/null
      serve --replicaof "$1" "$port" --replica-priority 0
    elif [ ! -e "$mark" ]; then
      told "the Sentinels name this member, whose volume is empty: it stays away until they have elected another one. If no other has the data either, restore a backup"
    elif [ "$4" -eq 0 ] || [ "$waited" -ge 60 ] || ! others; then
      say "$2 of $3 Sentinels name this member: it goes on as the primary"
      [ "$(cat "$mark")" != first ] || marked
      serve
    else
      # A primary that starts again counts its writes anew. Sentinels go by that count: a replica that has those before and none of those after
      # would be as good to them as one that has all.
      told "the Sentinels name this member, and could elect another one: waiting for that"
      waited=$((waited + 1))
    fi
    sleep 0.5
  done
}

# seen prints the member that all other members that answer say is the primary.
seen() {
  for member in $MEMBERS; do
    internal "$member" "$port" INFO replication | tr -d '\r' | awk -F: -v member="$member" '
      $1 == "role" { role = $2 } $1 == "master_host" { host = $2 }
      END { if (role == "master") print "primary", member; else if (role == "slave") print "replica", host }' &
  done | awk '$1 == "primary" { primaries++; primary = $2 } $1 == "replica" { of[$2] = 1 }
    END { for (host in of) if (host != primary) exit; if (primaries == 1) print primary }'
}

sentinel() {
  state=$data/sentinel.conf
  { cat $config/sentinel.conf
    # Two volumes of one Sentinel are one Sentinel: a new one under another name would be counted beside the old one for ever.
    echo "sentinel myid $(printf %s "$SELF" | sha256sum | cut -c1-40)"
    acl default "$REDISCLI_AUTH" '&* -@all +ping +auth +hello +info +role +command +client -client|kill -client|pause -client|unpause +subscribe +unsubscribe +psubscribe +punsubscribe +sentinel|masters +sentinel|master +sentinel|replicas +sentinel|slaves +sentinel|sentinels +sentinel|get-master-addr-by-name +sentinel|ckquorum +sentinel|myid'
    acl sentinel "$SENTINEL_PASSWORD" '&* +@all'
    echo "sentinel sentinel-user sentinel"
    echo "sentinel sentinel-pass $(quoted "$SENTINEL_PASSWORD")"
  } >"$data/own.conf"
  if ! grep -q "^sentinel monitor $name " "$state" 2>/dev/null; then
    # One that knows nothing says so to those who ask, and waits.
    cp "$data/own.conf" "$state"
    redis-server "$state" --sentinel &
    child=$!
    trap 'kill "$child"; wait "$child"; exit 0' TERM INT
    primary=
    until [ "$primary" ]; do
      kill -0 "$child"
      set -- $(for one in $PEERS; do [ "$one" = "$SELF" ] || echo "$one"; done)
      primary=$(askAll "$@" | newest | cut -d' ' -f1)
      [ "$primary" ] || primary=$(seen)
      [ "$primary" ] || { told "waiting for other Sentinels or members that know the primary"; sleep 0.5; }
    done
    kill "$child"
    wait "$child" || true
    trap - TERM INT
    echo "sentinel monitor $name $primary $port $QUORUM" >"$state"
  fi
  # Of what a Sentinel wrote itself all is kept that is not for the plan to say; Sentinels that are not wanted are forgotten, and, while the
  # primary answers, servers that do not follow it: one that does is heard of from the primary.
  follow=$(internal "$(awk -v name=$name '$2 == "monitor" && $3 == name { print $4 }' "$state")" "$port" INFO replication | tr -d '\r' | awk -F'[:=,]' '
    $1 == "role" { role = $2 } $1 ~ /^slave[0-9]/ && $2 == "ip" { list = list " " $3 } END { if (role == "master" && list) print list " " }' || true)
  awk -v name=$name -v quorum="$QUORUM" -v peers=" $PEERS " -v self="$SELF" -v follow="$follow" '
    $1 != "sentinel" { next }
    $2 == "monitor" && $3 == name { $6 = quorum; print; next }
    $2 == "current-epoch" || ($2 ~ /^(config-epoch|leader-epoch)$/ && $3 == name) { print; next }
    $2 ~ /^known-(replica|slave)$/ && $3 == name && (follow == "" || index(follow, " " $4 " ")) { print; next }
    $2 == "known-sentinel" && $3 == name && $4 != self && $5 != 0 && index(peers, " " $4 " ") { print }' "$state" >"$data/kept.conf"
  { cat "$data/own.conf" $config/monitor.conf "$data/kept.conf"
    echo "sentinel auth-user $name sentinel"
    echo "sentinel auth-pass $name $(quoted "$SENTINEL_PASSWORD")"
  } >"$data/next.conf"
  sync "$data/next.conf"
  mv "$data/next.conf" "$state"
  rm -f "$data/own.conf" "$data/kept.conf"
  sync "$data"
  say "watching $(awk '$2 == "monitor" { print $4 }' "$state") with a quorum of $QUORUM"
  ( tidy & ) </dev/null
  exec redis-server "$state" --sentinel
}

# gone prints the servers that a Sentinel has found down for half a minute, and whose names lead nowhere.
gone() {
  printf 'SENTINEL REPLICAS %s\n' $name | internal "$1" "$sentinelPort" | tr -d '\r' | awk '
    function tell() { if (down >= 30000) print host }
    key == "" { if ($0 == "name") { tell(); down = 0 } key = $0; next }
    { if (key == "ip") host = $0; if (key == "s-down-time") down = $0; key = "" }
    END { tell() }' | while read -r host; do getent hosts "$host" >/dev/null || echo "$host"; done
}

# tidy has this Sentinel forget servers that are gone, which it would list for ever. That takes a reset, after which it hears of all others
# anew; a server that is back after all is one of them as soon as it follows the primary. Sentinels do so one after the other, each only while
# all of them are there, know each other and name one primary, which serves.
tidy() {
  while kill -0 $$ 2>/dev/null; do
    sleep 20
    lost=$(gone 127.0.0.1)
    [ "$lost" ] || continue
    set -- $PEERS
    all=$#
    set -- $(askAll "$@" | awk -v all="$all" '$1 == "named" && $4 == all { n[$2]++ } END { for (host in n) if (n[host] == all) print host }')
    [ $# -eq 1 ] && [ "$(internal "$1" "$port" INFO replication | field role)" = master ] || continue
    for one in $PEERS; do
      [ "$one" != "$SELF" ] || break
      [ ! "$(gone "$one")" ] || continue 2
    done
    say "forgetting $(echo $lost): $(internal 127.0.0.1 "$sentinelPort" SENTINEL RESET $name)"
  done
}

# probe says "named:no" of a server that takes itself for the primary while each Sentinel that answers names another one.
probe() {
  info=$(redis-cli "$@")
  echo "$info"
  [ "$(echo "$info" | field role)" = master ] || return 0
  askAll $SENTINELS | awk -v self="$SELF" '$1 == "named" { n++; own += $2 == self } END { if (n) print "named:" (own ? "yes" : "no") }'
}

# writes says that this server takes writes. One that does not hands nothing over: the Sentinels would depose another one, which takes
# writes meanwhile that nobody has.
writes() { [ "$(field role)" = master ] || { say "$SELF is not the primary any more: nothing is handed over" >&2; exit 1; }; }

handover() {
  target=$1
  cli 127.0.0.1 INFO replication | writes
  restore() {
    cli "$target" CONFIG SET replica-priority "$PRIORITY" >/dev/null || true
    cli 127.0.0.1 CLIENT UNPAUSE >/dev/null || true
  }
  trap restore EXIT
  # A Sentinel elects by priority first, and hears of it every ten seconds.
  cli "$target" CONFIG SET replica-priority 1 >/dev/null
  chosen= tries=0
  until [ "$chosen" ]; do
    for one in $SENTINELS; do
      internal "$one" "$sentinelPort" SENTINEL REPLICAS $name | tr -d '\r' | awk -v target="$target" '
        key == "" { key = $0; next } { if (key == "ip") host = $0; if (key == "slave-priority" && host == target && $0 == 1) found = 1; key = "" } END { exit !found }' &&
        { chosen=$one; break; }
    done
    tries=$((tries + 1))
    [ "$chosen" ] || [ $tries -lt 30 ] || { say "no Sentinel takes $target for one that can be elected" >&2; exit 1; }
    [ "$chosen" ] || sleep 0.5
  done
  # Nobody writes while the replica gets the rest.
  cli 127.0.0.1 CLIENT PAUSE 8000 WRITE >/dev/null
  info=$(cli 127.0.0.1 INFO replication)
  echo "$info" | writes
  offset=$(echo "$info" | field master_repl_offset)
  tries=0
  until [ "$(cli "$target" INFO replication | field slave_repl_offset)" -ge "$offset" ]; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || { say "$target does not catch up" >&2; exit 1; }
    sleep 0.1
  done
  set -- $(ask "$chosen")
  [ "${2:-}" = "$SELF" ] || { say "Sentinel $chosen names ${2:-no primary}, and not $SELF: nothing is handed over" >&2; exit 1; }
  said=$(internal "$chosen" "$sentinelPort" SENTINEL FAILOVER $name)
  [ "$said" = OK ] || { say "Sentinel $chosen answers: $said" >&2; exit 1; }
  tries=0
  until [ "$(cli "$target" INFO replication | field role)" = master ]; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || { say "$target has not become the primary" >&2; exit 1; }
    sleep 0.1
  done
  # Before anybody can write here again.
  cli 127.0.0.1 REPLICAOF "$target" "$port" >/dev/null
}

# candidates prints "HOST PRIORITY" of each replica that a Sentinel can have elected: it is connected, and has a priority.
candidates() {
  internal "$1" "$sentinelPort" SENTINEL REPLICAS $name | tr -d '\r' | awk '
    function tell() { if (host != "" && flags !~ /down|disconnected/ && priority > 0) print host, priority; host = flags = ""; priority = 0 }
    key == "" { if ($0 == "name") tell(); key = $0; next }
    { if (key == "ip") host = $0; if (key == "flags") flags = $0; if (key == "slave-priority") priority = $0; key = "" }
    END { tell() }'
}

# gotten says whether a replica has all that a primary had written: the server $2, or any.
gotten() {
  cli "$1" INFO replication | tr -d '\r' | awk -F'[:=,]' -v target="$2" '
    $1 == "master_repl_offset" { all = $2 }
    $1 ~ /^slave[0-9]/ { host = offset = ""; for (i = 2; i < NF; i++) { if ($i == "ip") host = $(i + 1); if ($i == "offset") offset = $(i + 1) }
      if ((target == "" || host == target) && offset > most) most = offset }
    END { exit !(all != "" && most >= all) }'
}

failover() {
  wanted=${1:-} chosen=
  for one in $SENTINELS; do
    set -- $(ask "$one")
    [ "${1:-}" != named ] || { chosen=$one primary=$2; break; }
  done
  [ "$chosen" ] || { say "no Sentinel that knows the primary answers" >&2; exit 1; }
  [ "$wanted" != "${primary%%.*}" ] || { say "$wanted is the primary already" >&2; exit 1; }
  # Sentinels ask every ten seconds how replicas are: one that has just come back they do not know as such yet.
  can= target= tries=0
  while [ ! "$can" ] && [ $tries -lt 24 ]; do
    [ $tries -eq 0 ] || sleep 0.5
    tries=$((tries + 1))
    can=$(candidates "$chosen" | awk -v wanted="$wanted" '{ split($1, label, "."); if (wanted == "" || label[1] == wanted) print }')
  done
  if [ "$wanted" ]; then
    [ "$can" ] || { say "$wanted cannot take over: to the Sentinels it is no replica that is connected and has all of the data" >&2; exit 1; }
    target=${can%% *}
  fi
  [ "$can" ] || { say "no replica can take over: the Sentinels know none that is connected and has all of the data" >&2; exit 1; }
  priority=
  restore() {
    [ ! "$priority" ] || cli "$target" CONFIG SET replica-priority "$priority" >/dev/null || true
    cli "$primary" CLIENT UNPAUSE >/dev/null 2>&1 || true
  }
  trap restore EXIT
  if [ "$target" ]; then
    priority=$(cli "$target" CONFIG GET replica-priority | tail -n 1 | tr -d '\r')
    cli "$target" CONFIG SET replica-priority 1 >/dev/null
    tries=0
    until candidates "$chosen" | grep -qxF "$target 1"; do
      tries=$((tries + 1))
      [ $tries -lt 30 ] || { say "the Sentinel $chosen has not heard of the priority of $target" >&2; exit 1; }
      sleep 0.5
    done
  fi
  # A primary that answers takes no writes while the replica gets the rest; for one that does not, nobody waits.
  if cli "$primary" CLIENT PAUSE 8000 WRITE >/dev/null 2>&1; then
    tries=0
    until gotten "$primary" "$target" || [ $tries -ge 20 ]; do tries=$((tries + 1)); sleep 0.1; done
  fi
  # Where they have elected another one meanwhile, that is the outcome: to depose it as well would lose what it took.
  set -- $(ask "$chosen")
  [ "${2:-$primary}" = "$primary" ] && said=$(internal "$chosen" "$sentinelPort" SENTINEL FAILOVER $name) || said=OK
  case $said in
    OK | INPROG*) ;;
    *) say "the Sentinel $chosen answers: $said" >&2; exit 1 ;;
  esac
  now= tries=0
  until [ "$now" ] && [ "$now" != "$primary" ] && [ "$(cli "$now" INFO replication 2>/dev/null | field role)" = master ]; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { say "the Sentinels have elected nobody" >&2; exit 1; }
    sleep 0.5
    set -- $(ask "$chosen")
    now=${2:-}
  done
  # Before anybody can write there again.
  cli "$primary" REPLICAOF "$now" "$port" >/dev/null 2>&1 || true
  [ ! "$target" ] || [ "$now" = "$target" ] || { say "the Sentinels have elected $now in place of $target" >&2; exit 1; }
  say "$now is the primary in place of $primary"
  [ ! -w /dev/termination-log ] || echo "to=${now%%.*}" >/dev/termination-log
}

# down says whether a Sentinel misses the primary.
down() { internal "$1" "$sentinelPort" SENTINEL MASTER $name | tr -d '\r' | awk 'key == "flags" { print } { key = $0 }' | grep -q s_down; }

elect() {
  cli "$1" CONFIG SET replica-priority 100
  # Sentinels that have just elected nobody wait for twice the time of an election before they try again, unless one is told to. They hear of
  # the priority within a second.
  tries=0
  while [ $tries -lt 20 ]; do
    for one in $SENTINELS; do
      down "$one" || continue
      case $(internal "$one" "$sentinelPort" SENTINEL FAILOVER $name) in
        OK | INPROG*) return ;;
      esac
    done
    tries=$((tries + 1))
    sleep 0.5
  done
  say "the Sentinels are left to elect it by themselves"
}

command=$1
shift
case $command in
  start | sentinel | probe | handover | failover | elect) "$command" "$@" ;;
  *) echo "redis-elected: no such command: $command" >&2; exit 2 ;;
esac
