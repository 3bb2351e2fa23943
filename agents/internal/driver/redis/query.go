// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/zeroinfra/agents/internal/driver"
)

// columnValue of an answer that is no list of fields.
const columnValue = "value"

// Query implements driver.Querier. The text is a command and its words with blanks between them, as in INFO memory;
// arguments come after these. What begins with the name of a procedure is none of Redis: see procedures. An answer with
// lines "field:value", as that of INFO, gives one row with a column for each field, any other a row for each value.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (table driver.Table, err error) {
	words := append(strings.Fields(statement.Text), statement.Arguments...)
	if len(words) == 0 || statement.Database != "" {
		return driver.Table{}, fmt.Errorf("%q is no command of Redis, or is for a database, which none is", statement.Text)
	}
	if procedure, ok := procedures[words[0]]; ok {
		return procedure(ctx, d, words[1:], statement)
	}
	err = d.with(ctx, func(client *goredis.Client) error {
		if statement.Access == driver.ReadOnly {
			if err := checkReads(ctx, client, words[0]); err != nil {
				return err
			}
		}
		command := make([]any, len(words))
		for i, word := range words {
			command[i] = word
		}
		answer, err := client.Do(ctx, command...).Result()
		if err == nil || errors.Is(err, goredis.Nil) {
			table = tableOf(answer)
			return nil
		}
		return err
	})
	return table, err
}

// checkReads asks Redis itself what a command does.
func checkReads(ctx context.Context, client *goredis.Client, name string) error {
	known, err := client.Do(ctx, "COMMAND", "INFO", name).Slice()
	if err != nil {
		return err
	}
	described, _ := known[0].([]any)
	if len(described) < 3 {
		return fmt.Errorf("redis knows no command %q", name)
	}
	flags, _ := described[2].([]any)
	if slices.ContainsFunc(flags, func(flag any) bool {
		return flag == "write" || flag == "admin" || flag == "blocking"
	}) {
		return fmt.Errorf("the command %q does more than read", name)
	}
	return nil
}

func tableOf(answer any) driver.Table {
	switch value := answer.(type) {
	case nil:
		return driver.Table{}
	case []any:
		table := driver.Table{Columns: []string{columnValue}}
		for _, one := range value {
			table.Rows = append(table.Rows, []*string{textOf(one)})
		}
		return table
	case string:
		if table, ok := fieldsOf(value); ok {
			return table
		}
	}
	return driver.Table{Columns: []string{columnValue}, Rows: [][]*string{{textOf(answer)}}}
}

func textOf(value any) *string {
	if value == nil {
		return nil
	}
	return new(fmt.Sprint(value))
}

// fieldsOf reads what INFO says; anything else is not of that form.
func fieldsOf(text string) (driver.Table, bool) {
	table := driver.Table{Rows: [][]*string{nil}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field, value, ok := strings.Cut(line, ":")
		if !ok {
			return driver.Table{}, false
		}
		table.Columns, table.Rows[0] = append(table.Columns, field), append(table.Rows[0], &value)
	}
	return table, len(table.Columns) > 0
}
