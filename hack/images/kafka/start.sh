#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kafka-start [ARGUMENT]... writes what a node needs and no plan may hold, in plain text, and becomes kafka-node:
#
#   KAFKA_CONFIG       server.properties without secrets: see kafka-node
#   KAFKA_RUN          folder in memory for the files with secrets: server.properties, client.properties and
#                      format.options; with KAFKA_ZOOKEEPER jaas.conf and scram.properties; and keystore.pem, with key and certificate, where the node has them
#   KAFKA_USERNAME     the user by whom nodes log in at each other
#   KAFKA_PASSWORD     its password: letters, digits and -._~
#   KAFKA_LISTENERS    the listeners, in small letters and separated by spaces, that take it by SASL/PLAIN
#   KAFKA_TLS          folder with ca.crt; empty without TLS
#   KAFKA_ZOOKEEPER    host:port of ZooKeeper, at which the node logs in as the same user; empty without
#
# Nodes log in by PLAIN, since a controller cannot know SCRAM credentials before there is a cluster. The same user has a
# SCRAM-SHA-512 credential from the first format on, for those who look after the cluster.
set -eu

fail() {
  echo "kafka-start: $*" >&2
  exit 1
}

case $KAFKA_PASSWORD in
  '' | *[!A-Za-z0-9._~-]*) fail "the password of $KAFKA_USERNAME may have letters, digits and -._~ only: supply another one" ;;
esac
umask 077
mkdir -p "$KAFKA_RUN"
plain="org.apache.kafka.common.security.plain.PlainLoginModule required username=\"$KAFKA_USERNAME\" password=\"$KAFKA_PASSWORD\""
{
  # A broker without a rack has no such line: an empty one would be the name of a rack.
  grep -v '^broker\.rack=$' "$KAFKA_CONFIG"
  echo
  for listener in $KAFKA_LISTENERS; do
    echo "listener.name.$listener.plain.sasl.jaas.config=$plain user_$KAFKA_USERNAME=\"$KAFKA_PASSWORD\";"
  done
} >"$KAFKA_RUN/server.properties"
{
  echo "sasl.mechanism=PLAIN"
  echo "sasl.jaas.config=$plain;"
  if [ -n "${KAFKA_TLS:-}" ]; then
    echo "security.protocol=SASL_SSL"
    echo "ssl.truststore.type=PEM"
    echo "ssl.truststore.location=$KAFKA_TLS/ca.crt"
    # Listeners may ask tools for a certificate.
    if [ -e "$KAFKA_RUN/keystore.pem" ]; then
      echo "ssl.keystore.type=PEM"
      echo "ssl.keystore.location=$KAFKA_RUN/keystore.pem"
    fi
  else
    echo "security.protocol=SASL_PLAINTEXT"
  fi
} >"$KAFKA_RUN/client.properties"
echo "--add-scram=SCRAM-SHA-512=[name=$KAFKA_USERNAME,password=$KAFKA_PASSWORD]" >"$KAFKA_RUN/format.options"
if [ -n "${KAFKA_ZOOKEEPER:-}" ]; then
  echo "Client { org.apache.zookeeper.server.auth.DigestLoginModule required" \
    "username=\"$KAFKA_USERNAME\" password=\"$KAFKA_PASSWORD\"; };" >"$KAFKA_RUN/jaas.conf"
  echo "SCRAM-SHA-512=iterations=4096,password=$KAFKA_PASSWORD" >"$KAFKA_RUN/scram.properties"
  export KAFKA_JVM_OPTIONS="-Djava.security.auth.login.config=$KAFKA_RUN/jaas.conf ${KAFKA_JVM_OPTIONS:-}"
  export KAFKA_TOOL_OPTIONS="-Djava.security.auth.login.config=$KAFKA_RUN/jaas.conf"
  export KAFKA_SCRAM=$KAFKA_RUN/scram.properties
fi
KAFKA_CONFIG=$KAFKA_RUN/server.properties
KAFKA_COMMAND_CONFIG=$KAFKA_RUN/client.properties
KAFKA_FORMAT_OPTIONS="@$KAFKA_RUN/format.options ${KAFKA_FORMAT_OPTIONS:-}"
unset KAFKA_PASSWORD
export KAFKA_CONFIG KAFKA_COMMAND_CONFIG KAFKA_FORMAT_OPTIONS
exec kafka-node "$@"
