#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kafka-run CLASS [ARGUMENT]... runs a class of Kafka's or ZooKeeper's jars in place of this shell, so that signals
# reach it. Examples:
#
#   kafka-run kafka.Kafka server.properties
#   kafka-run org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg
#   kafka-run org.apache.kafka.tools.TopicCommand --bootstrap-server localhost:9092 --list
#
# The two classes above are servers: they have the heap of KAFKA_HEAP and log to standard output from KAFKA_LOG_LEVEL
# on. Every other class is a tool: it has a heap of at most 128 MiB whatever a server has, and logs warnings to standard
# error.
#
#   KAFKA_HEAP         heap of a server, as -Xmx takes it; 256m without
#   KAFKA_LOG_LEVEL    INFO without
#   KAFKA_JVM_OPTIONS  further options of a server's JVM, separated by spaces; they come last and win
#   KAFKA_TOOL_OPTIONS options of a tool's JVM, separated by spaces
#   KAFKA_LIBS         folder of the jars; /opt/kafka/libs without
#   JAVA_HOME          Java runtime; without, the one of the image, else java of the PATH
#
# The JVM chooses its garbage collector by the processors and the memory of the container: the serial one below 2
# processors or 1792 MiB, else G1. Native code of compression libraries is unpacked to /tmp, which must be writable and
# allow execution.
set -eu

if [ $# -eq 0 ]; then
  echo "kafka-run: give the name of a class" >&2
  exit 2
fi
case $1 in
  kafka.Kafka | org.apache.zookeeper.server.quorum.QuorumPeerMain)
    heap=${KAFKA_HEAP:-256m}
    # Metaspace and compiled code have bounds, so that the memory of a pod can be planned: with few clients a broker
    # that is a controller as well uses about 150 MiB beside its heap. Buffers of connections come on top.
    options="-Xms$heap -Xmx$heap -XX:MaxMetaspaceSize=128m -XX:ReservedCodeCacheSize=64m -XX:+ExitOnOutOfMemoryError"
    options="$options -Dkafka.log.level=${KAFKA_LOG_LEVEL:-INFO} -Dkafka.log.target=System.out -Dkafka.log.target2=SYSTEM_OUT"
    options="$options -Dzookeeper.admin.enableServer=false -Dzookeeper.jmx.log4j.disable=true ${KAFKA_JVM_OPTIONS:-}"
    ;;
  *)
    options="-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    options="$options -Dkafka.log.level=WARN -Dkafka.log.target=System.err -Dkafka.log.target2=SYSTEM_ERR ${KAFKA_TOOL_OPTIONS:-}"
    ;;
esac
java=
for home in "${JAVA_HOME:-}" /usr/lib/jvm/java-17-openjdk-*; do
  if [ -x "$home/bin/java" ]; then
    java=$home/bin/java
    break
  fi
done
# The options are words of their own; a wildcard of the class path is for the JVM.
set -f
# shellcheck disable=SC2086
exec "${java:-java}" -cp "${KAFKA_LIBS:-/opt/kafka/libs}/*" -Djava.awt.headless=true \
  -Dlog4j.configuration=file:/etc/kafka/log4j.properties -Dlog4j2.configurationFile=/etc/kafka/log4j2.properties $options "$@"
