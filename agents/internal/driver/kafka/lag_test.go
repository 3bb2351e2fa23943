// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"

	"github.com/IBM/sarama"
)

// TestOffsetsThatCannotBeReadAreNotNone: a group whose coordinator is another one by now would be behind by nothing.
func TestOffsetsThatCannotBeReadAreNotNone(t *testing.T) {
	for name, test := range map[string]struct {
		group, partition sarama.KError
		fails            bool
	}{
		"what is committed":      {sarama.ErrNoError, sarama.ErrNoError, false},
		"another coordinator":    {sarama.ErrNotCoordinatorForConsumer, sarama.ErrNoError, true},
		"offsets that are away":  {sarama.ErrNoError, sarama.ErrTopicAuthorizationFailed, true},
		"a group that just went": {codeNoGroup, sarama.ErrNoError, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := sarama.OffsetFetchResponseGroup{GroupId: "billing", Err: test.group}
			g.AddBlock("orders", 3, &sarama.OffsetFetchResponseBlock{Offset: 7, Err: test.partition})
			at, err := offsetsOf(g)
			if (err != nil) != test.fails || err == nil && at[place{"orders", 3}] != 7 {
				t.Errorf("got %v, %v", at, err)
			}
		})
	}
}
