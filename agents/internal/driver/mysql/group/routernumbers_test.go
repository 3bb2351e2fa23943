// SPDX-License-Identifier: Apache-2.0

//go:build processes

package group_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/mysql/router"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/driver/mysqlrouter"
)

// numbers asks the Router, and returns the values by the label of the row, empty for none, and by column.
func (r *routed) numbers(ctx context.Context, password, statement, label string) (map[string]map[string]string, error) {
	table, err := mysqlrouter.New(mysqlrouter.Options{Address: fmt.Sprintf("127.0.0.1:%d", router.PortREST),
		Username: server.RouterUser, Password: func() (string, error) { return password, nil },
	}).Query(ctx, driver.Statement{Text: statement, Access: driver.ReadOnly})
	rows := map[string]map[string]string{}
	for _, row := range table.Rows {
		values := map[string]string{}
		for i, value := range row {
			if value != nil {
				values[table.Columns[i]] = *value
			}
		}
		rows[values[label]] = values
	}
	return rows, err
}

// expectNumber waits until a number that the Router tells is as expected.
func (r *routed) expectNumber(statement, label, row, column string, expected func(n float64) bool) {
	r.Helper()
	r.servers["a"].Until(fmt.Sprintf("%s says %s of %q", statement, column, row), func(ctx context.Context) error {
		rows, err := r.numbers(ctx, routerPassword, statement, label)
		if err != nil {
			return err
		}
		n, err := strconv.ParseFloat(rows[row][column], 64)
		if err == nil && !expected(n) {
			err = fmt.Errorf("it is not as expected")
		}
		if err != nil {
			err = fmt.Errorf("%w: %v", err, rows)
		}
		return err
	})
}

// tellsNumbers has the Router tell all that the plugin makes metrics of, while there are clients.
func (r *routed) tellsNumbers() {
	r.Helper()
	some := func(n float64) bool { return n > 0 }
	for _, route := range []string{"primary", "replicas", "split"} {
		r.expectNumber("/routes/{route}/status", "route", route, "totalConnections", some)
		r.expectNumber("/routes/{route}/status", "route", route, "activeConnections", some)
	}
	r.expectNumber("/routing/status", "", "", "currentTotalConnections", func(n float64) bool { return n >= 3 })
	r.expectNumber("/routing/status", "", "", "maxTotalConnections", func(n float64) bool { return n == 100 })
	r.expectNumber("/metadata/{cache}/status", "cache", "group", "refreshSucceeded", some)
	r.expectNumber("/metadata/{cache}/status", "cache", "group", "refreshFailed", func(n float64) bool { return n >= 0 })
	for _, column := range []string{"idleServerConnections", "stashedServerConnections"} {
		r.expectNumber("/connection_pool/{pool}/status", "pool", "main", column, func(n float64) bool { return n >= 0 })
	}
	r.expectsAlive("true")
	if _, err := r.numbers(r.Context(), "another", "/routing/status", ""); err == nil ||
		!strings.Contains(err.Error(), "401") {
		r.Errorf("with another password it says %v", err)
	}
}

// expectsAlive waits until each route is said to take connections, or not to.
func (r *routed) expectsAlive(alive string) {
	r.Helper()
	r.servers["a"].Until("the routes are said to be alive: "+alive, func(ctx context.Context) error {
		rows, err := r.numbers(ctx, routerPassword, "/routes/{route}/health", "route")
		for _, route := range []string{"primary", "replicas", "split"} {
			if rows[route]["isAlive"] != alive && err == nil {
				err = fmt.Errorf("of %s it says %v", route, rows)
			}
		}
		return err
	})
}
