// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"
	"strings"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// resourceTypes by the word of the procedure Access.
var resourceTypes = map[string]sarama.AclResourceType{"cluster": sarama.AclResourceCluster,
	"group": sarama.AclResourceGroup,
	"topic": sarama.AclResourceTopic, "transactional-id": sarama.AclResourceTransactionalID}

func listAccess(s *session, words []string) (driver.Table, error) {
	kind, ok := resourceTypes[words[0]]
	if !ok {
		return driver.Table{}, fmt.Errorf("%q is no type of resources: it must be cluster, group, topic or "+
			"transactional-id", words[0])
	}
	resources, err := s.rulesFor(kind)
	if err != nil {
		return driver.Table{}, err
	}
	table := driver.Table{Columns: []string{"resource", "pattern", "principal", "host", "operation", "permission"}}
	for _, resource := range resources {
		pattern := "literal"
		if resource.ResourcePatternType == sarama.AclPatternPrefixed {
			pattern = "prefixed"
		}
		for _, rule := range resource.Acls {
			permission := "allow"
			if rule.PermissionType == sarama.AclPermissionDeny {
				permission = "deny"
			}
			table.Rows = append(table.Rows, row(resource.ResourceName, pattern, rule.Principal, rule.Host,
				strings.ToLower(rule.Operation.String()), permission))
		}
	}
	return table, nil
}
