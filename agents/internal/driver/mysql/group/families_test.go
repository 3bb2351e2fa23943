// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/group"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testmysql"
)

// TestGroupOfIPv6 forms a group whose members have addresses of IPv6 alone, has one that was killed come back, and
// dumps it.
func TestGroupOfIPv6(t *testing.T) {
	c := newClusterAt(t, "::1", "")
	c.settle(group.Unformed)
	first := c.primary()
	c.servers[first].SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY)")
	if err := c.write(first, 0); err != nil {
		t.Fatal(err)
	}
	c.everywhere(1)

	c.servers[first].Kill()
	second := c.primary(first)
	if err := c.write(second, 1); err != nil {
		t.Fatal(err)
	}
	c.servers[first].Start()
	c.settle(group.Formed)
	c.everywhere(2)

	s := c.servers[second]
	var dump bytes.Buffer
	source := &server.Source{Program: filepath.Join(s.Bin, "mysqldump"),
		Options: mysql.Options{Address: s.Address, Username: "root",
			Password: func() (string, error) { return testmysql.Password, nil }}}
	if _, err := source.Dump(t.Context(), &dump); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(dump.Bytes(), []byte("INSERT INTO `rows_` VALUES (0),(1);")) {
		t.Errorf("the dump has no rows: %s", dump.Bytes())
	}
}
