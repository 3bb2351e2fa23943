// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

// Procedures are what can be asked, in place of statements, which Kafka has none of.
const (
	// Access <type> lists the access rules for all resources of a type: topic, group, cluster or transactional-id.
	Access = "access"
)

// procedure answers a query.
type procedure struct {
	// effect says whether it changes something.
	effect driver.Access
	// least and most are how many words it takes.
	least, most int
	run         func(s *session, words []string) (driver.Table, error)
}

var procedures = map[string]procedure{
	Access: {driver.ReadOnly, 1, 1, listAccess},
}

// Query implements driver.Querier. The text is the name of a procedure and its words with blanks between them; arguments come after these.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (table driver.Table, err error) {
	words := append(strings.Fields(statement.Text), statement.Arguments...)
	if len(words) == 0 || statement.Database != "" {
		return driver.Table{}, fmt.Errorf("%q asks for nothing, or is for a database, which Kafka has none of", statement.Text)
	}
	p, ok := procedures[words[0]]
	words = words[1:]
	switch {
	case !ok:
		return driver.Table{}, fmt.Errorf("the driver for Kafka knows no %q: known are %s", statement.Text, strings.Join(slices.Sorted(maps.Keys(procedures)), ", "))
	case p.effect == driver.ReadWrite && statement.Access == driver.ReadOnly:
		return driver.Table{}, fmt.Errorf("%s does more than read", statement.Text)
	case len(words) < p.least || len(words) > p.most:
		return driver.Table{}, fmt.Errorf("%s takes from %d to %d words, and has %d", statement.Text, p.least, p.most, len(words))
	}
	err = d.with(ctx, func(s *session) error {
		table, err = p.run(s, words)
		return err
	})
	return table, err
}

func row(values ...string) []*string {
	texts := make([]*string, len(values))
	for i, value := range values {
		texts[i] = &value
	}
	return texts
}
