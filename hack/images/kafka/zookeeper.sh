#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# zookeeper-start becomes a ZooKeeper server for brokers of Kafka 3.9. Clients, and the servers among each other, log in
# as one user by SASL/DIGEST-MD5; nobody else is answered but to the question srvr.
#
#   ZOOKEEPER_ORDINAL  number of this server, from 0 on; ZooKeeper counts from 1 on
#   ZOOKEEPER_SERVERS  all servers, ordinal@host and separated by spaces; one alone forms no ensemble
#   ZOOKEEPER_PORT     port for clients; 2181 without
#   ZOOKEEPER_DATA     folder of its data
#   KAFKA_RUN          folder in memory for the files with secrets
#   KAFKA_USERNAME     the user
#   KAFKA_PASSWORD     its password: letters, digits and -._~
#   KAFKA_HEAP and others: see kafka-run
set -eu

fail() {
  echo "zookeeper-start: $*" >&2
  exit 1
}

case $KAFKA_PASSWORD in
  '' | *[!A-Za-z0-9._~-]*) fail "the password of $KAFKA_USERNAME may have letters, digits and -._~ only: supply another one" ;;
esac
ls "${KAFKA_LIBS:-/opt/kafka/libs}" | grep -q '^zookeeper-[0-9]' || fail "this version of Kafka has no ZooKeeper: 3.9 is the last with it"
umask 077
mkdir -p "$KAFKA_RUN" "$ZOOKEEPER_DATA"
module="org.apache.zookeeper.server.auth.DigestLoginModule required"
for section in Server QuorumServer; do
  echo "$section { $module user_$KAFKA_USERNAME=\"$KAFKA_PASSWORD\"; };"
done >"$KAFKA_RUN/jaas.conf"
for section in QuorumLearner Client; do
  echo "$section { $module username=\"$KAFKA_USERNAME\" password=\"$KAFKA_PASSWORD\"; };"
done >>"$KAFKA_RUN/jaas.conf"
unset KAFKA_PASSWORD
{
  echo "dataDir=$ZOOKEEPER_DATA"
  echo "clientPort=${ZOOKEEPER_PORT:-2181}"
  echo "tickTime=2000"
  echo "initLimit=30"
  echo "syncLimit=5"
  echo "autopurge.purgeInterval=1"
  echo "4lw.commands.whitelist=srvr"
  echo "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
  echo "enforce.auth.enabled=true"
  echo "enforce.auth.schemes=sasl"
  case $ZOOKEEPER_SERVERS in
    *' '*)
      # Names of pods that are not there yet lead nowhere.
      echo "quorumListenOnAllIPs=true"
      echo "quorum.auth.enableSasl=true"
      echo "quorum.auth.learnerRequireSasl=true"
      echo "quorum.auth.serverRequireSasl=true"
      for server in $ZOOKEEPER_SERVERS; do
        echo "server.$((${server%%@*} + 1))=${server#*@}:2888:3888"
      done
      ;;
  esac
} >"$KAFKA_RUN/zoo.cfg"
echo $((ZOOKEEPER_ORDINAL + 1)) >"$ZOOKEEPER_DATA/myid"
export KAFKA_JVM_OPTIONS="-Djava.security.auth.login.config=$KAFKA_RUN/jaas.conf ${KAFKA_JVM_OPTIONS:-}"
exec kafka-run org.apache.zookeeper.server.quorum.QuorumPeerMain "$KAFKA_RUN/zoo.cfg"
