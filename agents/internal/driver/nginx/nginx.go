// SPDX-License-Identifier: Apache-2.0

// Package nginx asks an nginx for its numbers: those of the page of its module stub_status.
package nginx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// Status is the statement that is answered, and the path of the page.
	Status = "/status"
	// maxPage is more than such a page has, in bytes.
	maxPage = 4 << 10
)

// columns of the answer, in the order of the numbers of the page.
var columns = []string{"active", "accepted", "handled", "requests", "reading", "writing", "waiting"}

// page is what stub_status says.
var page = regexp.MustCompile(`^Active connections: (\d+) *\nserver accepts handled requests\n (\d+) (\d+) (\d+) ` +
	`*\nReading: (\d+) Writing: (\d+) Waiting: (\d+) *\n?$`)

// Driver is a driver.Querier for one process. Each call makes a connection of its own.
type Driver struct{ address string }

// New returns a driver for an nginx that has its page of status at an address of the pod.
func New(address string) *Driver { return &Driver{address} }

// errNoObjects is what is said to who wants objects kept.
var errNoObjects = errors.New("an nginx has no objects that could be kept")

// Kinds implements driver.Driver: there are none.
func (d *Driver) Kinds() []string { return nil }

// Observe implements driver.Driver.
func (d *Driver) Observe(context.Context, string, []driver.Query) ([]driver.State, error) {
	return nil, errNoObjects
}

// Change implements driver.Driver.
func (d *Driver) Change(context.Context, string, []driver.Change) (driver.Problems, error) {
	return nil, errNoObjects
}

// Query implements driver.Querier: the one statement is Status, whose answer is a row with all numbers of the page.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (driver.Table, error) {
	if statement.Text != Status || len(statement.Arguments) > 0 || statement.Database != "" {
		return driver.Table{}, fmt.Errorf("an nginx is asked for %s, without arguments and database, and for nothing else",
			Status)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+Status, nil)
	if err != nil {
		return driver.Table{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return driver.Table{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	switch {
	case err != nil:
		return driver.Table{}, err
	case answer.StatusCode != http.StatusOK:
		return driver.Table{}, fmt.Errorf("nginx answers with %s", answer.Status)
	}
	return read(string(text))
}

// read makes a row of a page.
func read(text string) (driver.Table, error) {
	numbers := page.FindStringSubmatch(strings.ReplaceAll(text, "\r\n", "\n"))
	if numbers == nil {
		return driver.Table{}, fmt.Errorf("nginx answers with %q, which is no page of stub_status", text)
	}
	row := make([]*string, len(columns))
	for i := range columns {
		row[i] = &numbers[i+1]
	}
	return driver.Table{Columns: columns, Rows: [][]*string{row}}, nil
}
