// SPDX-License-Identifier: Apache-2.0

package pgbouncer

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// Reload has the process take over its configuration, and fails where it goes on without some of it: it would tell its
// log alone.
func (g *Gate) Reload(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	console, err := g.console(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(console)
	if _, err := ask(ctx, console, "RELOAD"); err != nil {
		return err
	}
	table, err := ask(ctx, console, "SHOW CONFIG")
	if err != nil {
		return err
	}
	key, value, changeable := slices.Index(table.Columns, "key"), slices.Index(table.Columns, "value"),
		slices.Index(table.Columns, "changeable")
	if key < 0 || value < 0 || changeable < 0 {
		return fmt.Errorf("the console tells of settings as %v", table.Columns)
	}
	wanted := settings(string(data))
	var wrong []string
	for _, row := range table.Rows {
		name, now, can := text(row[key]), text(row[value]), text(row[changeable])
		if want, set := wanted[name]; set && can == "yes" && !alike(want, now) {
			wrong = append(wrong, fmt.Sprintf("%s (it is %q)", name, now))
		}
		delete(wanted, name)
	}
	// What it does not know.
	wrong = append(wrong, slices.Sorted(maps.Keys(wanted))...)
	if len(wrong) > 0 {
		return fmt.Errorf("the process does not take %s", strings.Join(wrong, ", "))
	}
	return nil
}

// settings are those of the program itself.
func settings(config string) map[string]string {
	found, own := map[string]string{}, false
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			own = line == "["+consoleDatabase+"]"
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && own {
			found[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return found
}

// alike says whether two values are the same, which the process may write in another way.
func alike(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return a == b || err1 == nil && err2 == nil && x == y
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
