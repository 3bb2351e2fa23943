// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// retentionParameter limits the bytes of each partition.
const retentionParameter = "log.retention.bytes"

const (
	// beyondRetention is what a partition may hold beyond its retention: the segment that is written, one that is over the
	// limit only in part, 1 GiB each, and as much for all else.
	beyondRetention = 3 << 30
	// leastRetention is a part of a volume that is not much larger than that.
	leastRetention = 4
)

// retention has no single partition grow beyond the smallest volume of a broker. Kafka's own default has no limit, and
// a log directory whose volume is full goes offline, on all replicas at about the same time.
func retention(spec *messagev1.KafkaClusterSpec) platformv1.Parameters {
	smallest := spec.Storage.Size
	if smallest.IsZero() {
		smallest = instance.Size
	}
	for _, volume := range spec.AdditionalVolumes {
		if volume.Size.Cmp(smallest) < 0 {
			smallest = volume.Size
		}
	}
	return platformv1.Parameters{retentionParameter: typed.Number(retentionOf(smallest))}
}

// retentionOf is what of a volume one partition may have, in bytes.
func retentionOf(size resource.Quantity) int64 {
	bytes := size.Value()
	return max(bytes-beyondRetention, bytes/leastRetention)
}
