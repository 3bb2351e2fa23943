# SPDX-License-Identifier: Apache-2.0
#
# What etcd-member and etcd-members have in common.
#
#   MEMBER_NAME    name of this pod, which is the name of its member
#   MEMBER_DOMAIN  DNS domain of the pods
#   MEMBER_SCHEME  of the client URLs: http or https
#   MEMBER_CA      file with the CA of the client URLs, empty without TLS
export ETCDCTL_API=3

# begin_mark is made by etcd-members for the pod that is to begin the cluster, and begun_mark by that pod in its place.
# The containers of a pod share them.
begin_mark=${MEMBER_RUN:-/zeroinfra/run}/etcd-begin
begun_mark=${MEMBER_RUN:-/zeroinfra/run}/etcd-begun

say() { echo "${0##*/}: $*" >&2; }

# client_url and peer_url print the addresses of a pod's member.
client_url() { echo "$MEMBER_SCHEME://$1.$MEMBER_DOMAIN:2379"; }
peer_url() { echo "https://$1.$MEMBER_DOMAIN:2380"; }

# ctl asks the member at a client URL.
ctl() {
  at=$1
  shift
  etcdctl --endpoints="$at" ${MEMBER_CA:+--cacert="$MEMBER_CA"} --command-timeout=2s --dial-timeout=2s "$@"
}

# there says whether DNS has a pod. One that it does not have would cost the time that a connection may take.
there() { getent ahosts "$1.$MEMBER_DOMAIN" >/dev/null 2>&1; }

# reads prints those of the given pods whose member answers a read, which takes a majority. A learner does not.
reads() {
  for pod; do
    (there "$pod" && ctl "$(client_url "$pod")" get --keys-only etcd-members >/dev/null 2>&1 && echo "$pod") &
  done
  wait
}

# read_members asks the given pods who the members are, and sets "list" to that and "via" to the client URL of the one
# that said so. It fails where none does. A member list alone is, before etcd 3.5, what that member has heard of so far:
# after a read it has heard of all.
read_members() {
  for pod in $(reads "$@"); do
    via=$(client_url "$pod")
    list=$(ctl "$via" member list 2>/dev/null) && [ -n "$list" ] && return 0
  done
  list='' via=''
  return 1
}

# field prints field $1 of the line of the member list that has $3 in field $2. The fields: ID, status, name, peer
# URLs, client URLs, learner.
field() { printf '%s\n' "$list" | awk -F', *' -v out="$1" -v by="$2" -v is="$3" '$by == is { print $out; exit }'; }
