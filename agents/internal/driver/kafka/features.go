// SPDX-License-Identifier: Apache-2.0

package kafka

import "github.com/IBM/sarama"

// featureMetadata is the feature by which nodes agree on what they write.
const featureMetadata = "metadata.version"

// metadataReleases are the lines of Kafka that run here, each with the highest level of metadata.version that it can
// read, as "kafka-features.sh version-mapping" tells it.
var metadataReleases = []struct {
	line  string
	level int16
}{{"3.9", 21}, {"4.3", 30}, {"4.4", 33}}

// releaseOf is the first line that can read a level; empty for one that none of them can.
func releaseOf(level int16) string {
	for _, release := range metadataReleases {
		if level <= release.level {
			return release.line
		}
	}
	return ""
}

const (
	// apiVersionsVersion tells of features (KIP-584).
	apiVersionsVersion = 3
	// tagFinalized is where the answer has the features that the cluster has agreed on.
	tagFinalized = 2
)

// metadataRelease is the first release line that can read what the cluster writes; empty where that is not known, and
// where the metadata is in ZooKeeper. The broker of the pod knows it.
func (s *session) metadataRelease() (string, error) {
	w := s.wire
	if w.broker != s.local {
		return "", nil
	}
	d, err := w.call(s.dialer.left(), keyAPIVersions, apiVersionsVersion, encoder{}.text(clientID).text("1").tags())
	if err != nil {
		return "", err
	}
	level, err := readMetadataLevel(d)
	if err != nil || level == 0 {
		return "", err
	}
	return releaseOf(level), nil
}

// readMetadataLevel is 0 where the cluster has agreed on none.
func readMetadataLevel(d *decoder) (level int16, err error) {
	if code := sarama.KError(d.int16()); code != sarama.ErrNoError {
		return 0, answer{code: code}
	}
	d.each(func() {
		d.take(6)
		d.tags()
	})
	d.int32() // How long the broker holds the client back.
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		tag := d.uvarint()
		field := &decoder{data: d.take(d.uvarint())}
		if tag != tagFinalized || d.err != nil {
			continue
		}
		field.each(func() {
			name := field.text()
			highest := field.int16()
			field.int16()
			field.tags()
			if name != nil && *name == featureMetadata {
				level = highest
			}
		})
		d.err = field.err
	}
	return level, d.err
}
