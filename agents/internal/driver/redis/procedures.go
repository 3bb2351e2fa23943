// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// Procedures of the driver, in place of a command of Redis. Each takes the shape of a cluster as JSON.
const (
	// ClusterView tells of each member what it is.
	ClusterView = "cluster-view"
	// ClusterPlan tells what ClusterStep would do next.
	ClusterPlan = "cluster-plan"
	// ClusterStep brings the cluster towards its shape, as far as its time goes.
	ClusterStep = "cluster-step"
)

const (
	// stepTime of a call without a deadline.
	stepTime = time.Minute
	// waitTime is how long a call waits, at most, for what comes by itself.
	waitTime = 10 * time.Second
	// maxRedirectTime is the longest time for clients to learn the new owners of slots: go-redis asks
	// again after 10 s.
	maxRedirectTime = 12 * time.Second
)

type procedure func(ctx context.Context, d *Driver, words []string, statement driver.Statement) (driver.Table, error)

// procedures by name.
var procedures = map[string]procedure{ClusterView: viewCluster, ClusterPlan: planCluster, ClusterStep: stepCluster}

// stepping has one call after another change a cluster: slots that one has open are not for another to close.
var stepping sync.Mutex

var errStepping = errors.New("another call changes the cluster: try again when that has ended")

// network reads the shape and makes connections to its members, with the password of this moment.
func (d *Driver) network(words []string) (*cluster.Shape, *cluster.Network, cluster.Login, error) {
	if len(words) != 1 {
		return nil, nil, nil, fmt.Errorf("one argument is wanted, the shape of the cluster as JSON, and there are %d",
			len(words))
	}
	shape, err := cluster.ParseShape(words[0])
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := driver.TLS(d.options.CAFile)
	if err != nil {
		return nil, nil, nil, err
	}
	login := func() (string, string, error) {
		password, err := d.options.Password()
		return d.options.Username, password, err
	}
	return shape, cluster.NewNetwork(login, config), login, nil
}

func viewCluster(ctx context.Context, d *Driver, words []string, _ driver.Statement) (driver.Table, error) {
	shape, network, _, err := d.network(words)
	if err != nil {
		return driver.Table{}, err
	}
	defer network.Close()
	table := driver.Table{Columns: []string{"member", "problem", "id", "address", "role", "primary", "slots", "open",
		"state", "keys", "used", "limit"}}
	for _, v := range cluster.Look(ctx, network, shape) {
		s := v.Summary()
		table.Rows = append(table.Rows, row(v.Member, v.Problem, v.ID, v.Address, s.Role, s.Primary, number(s.Slots),
			number(s.Open), v.State, number(v.Keys), number(v.Used), number(v.Limit)))
	}
	return table, nil
}

func planCluster(ctx context.Context, d *Driver, words []string, _ driver.Statement) (driver.Table, error) {
	shape, network, _, err := d.network(words)
	if err != nil {
		return driver.Table{}, err
	}
	defer network.Close()
	plan := cluster.Decide(shape, cluster.Look(ctx, network, shape))
	table := driver.Table{Columns: []string{"phase", "reason", "left", "step"}}
	for _, step := range plan.Steps {
		table.Rows = append(table.Rows, row(string(plan.Phase), plan.Reason, number(plan.Left), step.String()))
	}
	if len(plan.Steps) == 0 {
		table.Rows = append(table.Rows, row(string(plan.Phase), plan.Reason, number(plan.Left), ""))
	}
	return table, nil
}

func stepCluster(ctx context.Context, d *Driver, words []string, statement driver.Statement) (driver.Table, error) {
	if statement.Access == driver.ReadOnly {
		return driver.Table{}, fmt.Errorf("%s does more than read", ClusterStep)
	}
	shape, network, login, err := d.network(words)
	if err != nil {
		return driver.Table{}, err
	}
	defer network.Close()
	if !stepping.TryLock() {
		return driver.Table{}, errStepping
	}
	defer stepping.Unlock()
	left := timeOf(ctx)
	bringer := &cluster.Bringer{Transport: network, Login: login, Patience: min(left/4, waitTime), Budget: left / 2,
		RedirectTime: min(left*2/5, maxRedirectTime)}
	if statement.Report != nil {
		bringer.Report = func(r cluster.Result) { statement.Report(tableOfResult(r)) }
	}
	result, err := bringer.Bring(ctx, shape)
	if err == nil && shape.Goal == cluster.GiveUp && result.Phase != cluster.Done {
		// Nobody calls again.
		err = fmt.Errorf("nothing is given up: %s", result.Reason)
	}
	if err != nil {
		return driver.Table{}, err
	}
	return tableOfResult(result), nil
}

// timeOf a call until its deadline.
func timeOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return stepTime
}

func tableOfResult(r cluster.Result) driver.Table {
	return driver.Table{
		Columns: []string{"phase", "reason", "steps", "slots", "keys", "left"},
		Rows: [][]*string{row(string(r.Phase), r.Reason, number(r.Steps), number(r.Slots), number(r.Keys),
			number(r.Left))},
	}
}

func row(values ...string) []*string {
	texts := make([]*string, len(values))
	for i, value := range values {
		texts[i] = new(value)
	}
	return texts
}

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }
