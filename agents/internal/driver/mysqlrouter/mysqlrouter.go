// SPDX-License-Identifier: Apache-2.0

// Package mysqlrouter asks a MySQL Router for its numbers, by its REST API.
package mysqlrouter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// API is the path that all others of the REST API follow, as MySQL Router 8.0 to 9.7 have it.
	API = "/api/20190715"
	// maxAnswer is more than an answer has, in bytes.
	maxAnswer = 64 << 10
)

// Options are what a driver needs of a Router.
type Options struct {
	// Address of the REST API, on the loopback of the pod, where it speaks plain HTTP.
	Address string
	// Username and password of an account of the API.
	Username string
	Password func() (string, error)
}

// Driver is a driver.Querier for one Router. Each call makes connections of its own.
type Driver struct{ Options }

// New returns a driver.
func New(o Options) *Driver { return &Driver{o} }

// errNoObjects is what is said to who wants objects kept.
var errNoObjects = errors.New("a MySQL Router has no objects that could be kept")

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

// statementForm is a path below API: of one object, or of each object of a list, whose name the column in braces gets.
var statementForm = regexp.MustCompile(`^(/[a-z_]+)(?:/\{([a-z_]+)\})?(/[a-z_]+)$`)

// Query implements driver.Querier. A statement is the path of an object, such as /routing/status, or of one in each
// item of a list, such as /routes/{route}/status. Each gives a row, whose columns are the object's fields; what is no
// number, truth value or text is left out.
func (d *Driver) Query(ctx context.Context, statement driver.Statement) (driver.Table, error) {
	form := statementForm.FindStringSubmatch(statement.Text)
	if form == nil || len(statement.Arguments) > 0 || statement.Database != "" {
		return driver.Table{}, fmt.Errorf("a MySQL Router is asked for a path of its REST API, such as /routing/status or "+
			"/routes/{route}/status, without arguments and database, and not for %q", statement.Text)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	a := &asked{d, &http.Client{Transport: transport}}
	list, label, object := form[1], form[2], form[3]
	if label == "" {
		fields, err := a.object(ctx, list+object)
		if err != nil {
			return driver.Table{}, err
		}
		return table([]map[string]string{fields}), nil
	}
	var items struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
	}
	if err := a.get(ctx, list, &items); err != nil {
		return driver.Table{}, err
	}
	var rows []map[string]string
	for _, item := range items.Items {
		fields, err := a.object(ctx, list+"/"+url.PathEscape(item.Name)+object)
		if err != nil {
			return driver.Table{}, err
		}
		fields[label] = item.Name
		rows = append(rows, fields)
	}
	return table(rows), nil
}

// asked is a Router during one statement.
type asked struct {
	*Driver
	client *http.Client
}

// object is what a path gives, by field.
func (a *asked) object(ctx context.Context, path string) (map[string]string, error) {
	answer := map[string]json.RawMessage{}
	if err := a.get(ctx, path, &answer); err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for name, raw := range answer {
		var text string
		switch {
		case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
			fields[name] = text
		case raw[0] != '{' && raw[0] != '[' && string(raw) != "null":
			fields[name] = string(raw)
		}
	}
	return fields, nil
}

// get reads what a path gives.
func (a *asked) get(ctx context.Context, path string, into any) error {
	password, err := a.Password()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Address+API+path, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(a.Username, password)
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	// The health of a route that takes no connections is told with an error; errors of requests have another type.
	told := answer.StatusCode == http.StatusInternalServerError && answer.Header.Get("Content-Type") == "application/json"
	if answer.StatusCode != http.StatusOK && !told {
		return fmt.Errorf("the Router answers to %s with %s", path, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("the Router's answer to %s cannot be read: %w", path, err)
	}
	return nil
}

// table has all fields that a row has as columns, in alphabetical order.
func table(rows []map[string]string) driver.Table {
	all := map[string]string{}
	for _, row := range rows {
		maps.Copy(all, row)
	}
	out := driver.Table{Columns: slices.Sorted(maps.Keys(all))}
	for _, row := range rows {
		values := make([]*string, len(out.Columns))
		for i, column := range out.Columns {
			if value, there := row[column]; there {
				values[i] = &value
			}
		}
		out.Rows = append(out.Rows, values)
	}
	return out
}
