#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# etcd-member starts etcd with the given arguments, and decides how a member whose volume is empty joins. The cluster knows a member that
# has served before by an ID that belongs to the data which is lost: it is removed and added as a new one, which copies the data of the
# others ("Member lifecycle" in etcd's design documents). A member that has never served begins with the others as --initial-cluster says.
#
#   MEMBER_NAME  name of this member
#   MEMBER_URL   its peer URL
#   MEMBERS      client URL of each member: name=URL, separated by spaces
#   MEMBER_CA    file with the CA of the client URLs, empty without TLS
#   MEMBER_DATA  folder of the data
#   POD_IPS      addresses of the pod: with an IPv6 one among them it listens on all addresses of both families, in place of IPv4's alone
set -u

say() { echo "etcd-member: $*" >&2; }

# ctl asks the member at a client URL.
ctl() {
  at=$1
  shift
  etcdctl --endpoints="$at" ${MEMBER_CA:+--cacert="$MEMBER_CA"} --command-timeout=2s --dial-timeout=2s "$@"
}

# serving prints the client URLs of the other members that serve. A member serves only once it is in a cluster.
serving() {
  for entry in $MEMBERS; do
    [ "${entry%%=*}" != "$MEMBER_NAME" ] || continue
    (ctl "${entry#*=}" endpoint status >/dev/null 2>&1 && echo "${entry#*=}") &
  done
  wait
}

# field prints field $1 of the line of "member list" that has $3 in field $2: ID, status, name, peer URLs, client URLs.
field() { printf '%s\n' "$list" | awk -F', *' -v out="$1" -v by="$2" -v is="$3" '$by == is { print $out; exit }'; }

# others prints name=peer URL of each member with a name, and of this one.
others() {
  printf '%s\n' "$list" | awk -F', *' -v name="$MEMBER_NAME" -v url="$MEMBER_URL" '
    $3 != "" && $3 != name { printf "%s=%s,", $3, $4 }
    END { printf "%s=%s", name, url }'
}

start() { exec etcd "$@"; }

for argument; do
  shift
  case "${POD_IPS:-} $argument" in
    *:*" --listen-"*0.0.0.0*) argument="${argument%%0.0.0.0*}[::]${argument#*0.0.0.0}" ;;
  esac
  set -- "$@" "$argument"
done
if [ -d "$MEMBER_DATA/member/wal" ]; then
  start "$@" --initial-cluster-state=new
fi
export ETCDCTL_API=3
while :; do
  endpoints=$(serving)
  # Nobody has a cluster yet: all begin together.
  [ -n "$endpoints" ] || start "$@" --initial-cluster-state=new
  list=
  for endpoint in $endpoints; do
    list=$(ctl "$endpoint" member list 2>/dev/null) && [ -n "$list" ] && break
    list=
  done
  if [ -z "$list" ]; then
    say "this member's volume is empty, and the others have no majority to add it: start another member, or restore a backup"
    sleep 2
    continue
  fi
  id=$(field 1 3 "$MEMBER_NAME")
  if [ -n "$id" ] && [ -z "$(field 5 3 "$MEMBER_NAME")" ]; then
    # It is named by --initial-cluster and has never served.
    start "$@" --initial-cluster-state=new
  elif [ -n "$id" ]; then
    say "this member served as $id and its data is gone: it is removed from the cluster and added as a new member"
    ctl "$endpoint" member remove "$id" >&2 || sleep 2
  elif [ -n "$(field 1 4 "$MEMBER_URL")" ]; then
    say "this member joins the cluster and copies its data"
    start "$@" --initial-cluster="$(others)" --initial-cluster-state=existing
  else
    ctl "$endpoint" member add "$MEMBER_NAME" --peer-urls="$MEMBER_URL" >&2 || sleep 2
  fi
done
