#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kafka-tool CLASS [ARGUMENT]... runs a tool of Kafka's that takes --command-config, logged in by SCRAM-SHA-512. The
# settings of the client reach it by its standard input, so that no file has the password. Example:
#
#   kafka-tool org.apache.kafka.tools.FeatureCommand --bootstrap-server=127.0.0.1:9092 describe
#
#   KAFKA_USERNAME     the user
#   KAFKA_PASSWORD     its password: letters, digits and -._~
#   KAFKA_TLS          folder with ca.crt; empty without TLS
set -eu

if [ $# -eq 0 ]; then
  echo "kafka-tool: give the name of a class" >&2
  exit 2
fi
class=$1
shift
login="username=\"$KAFKA_USERNAME\" password=\"$KAFKA_PASSWORD\""
unset KAFKA_PASSWORD
{
  echo "sasl.mechanism=SCRAM-SHA-512"
  echo "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required $login;"
  if [ -n "${KAFKA_TLS:-}" ]; then
    echo "security.protocol=SASL_SSL"
    echo "ssl.truststore.type=PEM"
    echo "ssl.truststore.location=$KAFKA_TLS/ca.crt"
  else
    echo "security.protocol=SASL_PLAINTEXT"
  fi
} | kafka-run "$class" --command-config=/dev/stdin "$@"
