// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// kept are variables that the engine and its procedures set while the server runs, beside the file.
var kept = regexp.MustCompile(
	`^(group_replication_.*|gtid_.*|offline_mode|read_only|super_read_only|rpl_semi_sync_.*)$`)

// rounded are variables that the server makes a multiple of something else.
var rounded = []string{"innodb_buffer_pool_size"}

// variableOf is the variable of an option that is called otherwise.
var variableOf = map[string]string{"default_time_zone": "time_zone"}

// Apply has a server that runs take over the values of its file, by the names of options, and reads them back.
// Variables that were set while it ran, or at its start, and that the file does not have get their defaults. What can
// be set at a start alone is not touched: who changes that starts the server anew.
//
// Nothing is persisted in the server (SET PERSIST): what its start reads would have a second place then, which wins
// over the file.
func (d *Driver) Apply(ctx context.Context, options map[string]string) error {
	file := map[string]string{}
	for option, value := range options {
		file[cmp.Or(variableOf[option], option)] = value
	}
	return d.with(ctx, "", func(s *session) error {
		there, err := s.variables(ctx)
		if err != nil {
			return err
		}
		for _, variable := range slices.Sorted(maps.Keys(file)) {
			if err := s.apply(ctx, variable, file[variable], there); err != nil {
				return err
			}
		}
		for _, variable := range slices.Sorted(maps.Keys(there)) {
			_, wanted := file[variable]
			if wanted || !there[variable].set || kept.MatchString(variable) {
				continue
			}
			if err := s.reset(ctx, variable); err != nil {
				return err
			}
		}
		return nil
	})
}

// variable of a server.
type variable struct {
	value string
	// set says that it is not the value that it was built with.
	set bool
}

const observeVariables = `SELECT LOWER(v.VARIABLE_NAME), v.VARIABLE_VALUE,
  i.VARIABLE_SOURCE IN ('EXPLICIT', 'GLOBAL', 'DYNAMIC', 'PERSISTED')
FROM performance_schema.global_variables v JOIN performance_schema.variables_info i USING (VARIABLE_NAME)`

func (s *session) variables(ctx context.Context) (map[string]variable, error) {
	rows, err := s.rows(ctx, observeVariables)
	if err != nil {
		return nil, fmt.Errorf("cannot read the variables: %w", err)
	}
	there := make(map[string]variable, len(rows))
	for _, row := range rows {
		there[row[0]] = variable{row[1], row[2] == "1"}
	}
	return there, nil
}

// apply sets a variable that has another value. Options of the file that are no variables are for a start alone.
func (s *session) apply(ctx context.Context, variable, wanted string, there map[string]variable) error {
	has, ok := there[variable]
	if !ok || same(has.value, wanted) {
		return nil
	}
	value := literal(wanted)
	err := s.do(ctx, statement{"SET GLOBAL " + name(strings.Split(variable, ".")...) + " = ?", []any{value}})
	if code(err) == errStaticVariable {
		return nil
	}
	if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("parameter %q: %s", variable, sentenceOf(refused))
	}
	if err != nil {
		return err
	}
	return s.confirm(ctx, variable, wanted)
}

// confirm reads a variable back.
func (s *session) confirm(ctx context.Context, variable, wanted string) error {
	rows, err := s.rows(ctx, "SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = ?",
		variable)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("parameter %q is gone since it was set", variable)
	}
	if !same(rows[0][0], wanted) && !slices.Contains(rounded, variable) {
		return fmt.Errorf("parameter %q is %q, and MySQL makes %q of it: say that", variable, wanted, rows[0][0])
	}
	return nil
}

// reset gives a variable its default, where it can be set at all.
func (s *session) reset(ctx context.Context, variable string) error {
	err := s.do(ctx, statement{text: "SET GLOBAL " + name(strings.Split(variable, ".")...) + " = DEFAULT"})
	switch code(err) {
	case errStaticVariable, errNoDefault, errUnknownVariable:
		return nil
	}
	if err != nil {
		return fmt.Errorf("parameter %q cannot get its default: %w", variable, err)
	}
	return nil
}

func code(err error) uint16 {
	if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

var sizeForm = regexp.MustCompile(`^([0-9]+)([KMGTP])$`)

// literal is a value of an option file as SET takes it: a number for what is one, with its unit worked out.
func literal(value string) any {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil {
		return f
	}
	if parts := sizeForm.FindStringSubmatch(strings.ToUpper(value)); parts != nil {
		n, err := strconv.ParseInt(parts[1], 10, 64)
		shift := 10 * (1 + strings.Index("KMGTP", parts[2]))
		if err == nil && n<<shift>>shift == n {
			return n << shift
		}
	}
	return value
}

// same says whether what a server has is what a file says: 64M is 67108864, 1 is ON, and lists have no order.
func same(has, wanted string) bool {
	return normal(has) == normal(wanted)
}

func normal(value string) string {
	value = strings.ToUpper(fmt.Sprint(literal(strings.TrimSpace(value))))
	switch value {
	case "ON", "TRUE":
		return "1"
	case "OFF", "FALSE":
		return "0"
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	words := strings.Split(value, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}
