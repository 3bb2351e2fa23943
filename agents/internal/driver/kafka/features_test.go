// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"testing"

	"github.com/IBM/sarama"
)

func TestReleasesThatCanReadAMetadataVersion(t *testing.T) {
	for level, want := range map[int16]string{7: "3.9", 21: "3.9", 22: "4.3", 30: "4.3", 31: "4.4", 33: "4.4", 34: ""} {
		if got := releaseOf(level); got != want {
			t.Errorf("level %d is of %q, want %q", level, got, want)
		}
	}
}

// versionsAnswer is one that tells of some features that the cluster has agreed on.
func versionsAnswer(finalized encoder) encoder {
	body := encoder{}.int16(0).length(1).int16(18).int16(0).int16(4).tags().int32(0)
	// A field that nobody here reads comes first.
	return append(append(append(body, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 5, tagFinalized), byte(len(finalized))), finalized...)
}

func TestMetadataLevelOfAnAnswer(t *testing.T) {
	metadata := encoder{}.length(2).text("group.version").int16(1).int16(1).tags().text(featureMetadata).int16(30).
		int16(7).tags()
	for name, test := range map[string]struct {
		answer encoder
		want   int16
		err    error
	}{
		"agreed":      {versionsAnswer(metadata), 30, nil},
		"other":       {versionsAnswer(encoder{}.length(1).text("group.version").int16(1).int16(1).tags()), 0, nil},
		"none":        {encoder{}.int16(0).length(0).int32(0).tags(), 0, nil},
		"refused":     {encoder{}.int16(35), 0, answer{code: sarama.ErrUnsupportedVersion}},
		"cut short":   {versionsAnswer(metadata[:8]), 0, errAnswer},
		"no features": {encoder{}.int16(0).length(0), 0, errAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readMetadataLevel(&decoder{data: test.answer})
			if err == nil && got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}
