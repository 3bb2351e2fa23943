// SPDX-License-Identifier: Apache-2.0

package message

import (
	"strconv"

	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// kafkaImage has Kafka's own tools, and is what bare brokers run.
	kafkaImage = "zeroinfra/kafka:4.4"
	// consoleName is the pod that Kafka's own tools run in.
	consoleName = "console"
	// consoleScript counts the different records of a topic by Kafka's own consumer. The password is its standard input.
	consoleScript = `read -r KAFKA_PASSWORD
export KAFKA_PASSWORD KAFKA_USERNAME="$1"
kafka-tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$2" --topic "$3" --from-beginning \
  --max-messages "$4" --timeout-ms 120000 | sort -u | wc -l`
)

// consoleReads has Kafka's own console consumer read all that was acknowledged to a producer whose sends all succeeded,
// and which is the only one of its topic.
func (k *kafka) consoleReads(p *producer) {
	k.Helper()
	k.RunClient(consoleName, kafkaImage)
	a, want := k.binding(), strconv.FormatInt(p.acknowledged.Load(), 10)
	got, err := framework.Run(k.Ctx, k.Namespace.Name, consoleName, consoleName, a.password+"\n", "sh", "-c",
		consoleScript, "console", a.username, a.address, p.topic, want)
	if err != nil || got != want {
		k.Errorf("the console consumer reads %q different records, want %s: %v", got, want, err)
	}
}
