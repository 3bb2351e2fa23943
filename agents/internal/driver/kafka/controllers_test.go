// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
)

// dedicated is a cluster whose controllers are no brokers, and the drivers of two of its nodes.
type dedicated struct {
	*testkafka.Dedicated
	broker, controller *server
}

func newDedicated(t *testing.T, controllers, brokers int) *dedicated {
	t.Helper()
	c := testkafka.NewDedicated(t, controllers, brokers)
	d := &dedicated{Dedicated: c, broker: &server{c.Cluster,
		driverOf(c.Cluster, testkafka.Admin, testkafka.AdminPassword)}}
	d.controller = d.at(0)
	return d
}

// at is the driver of a controller, as it runs beside it.
func (d *dedicated) at(ordinal int) *server {
	return &server{d.Cluster, kafka.New(kafka.Options{Address: d.Controllers[ordinal].Controller,
		Password: func() (string, error) { return "", nil }})}
}

// shape has the first controllers stay, and the others leave.
func (d *dedicated) shape(staying int) string {
	d.Helper()
	members, leaving := []string{}, []string{}
	for i := range d.Controllers {
		if i < staying {
			members = append(members, testkafka.ControllerName(i))
		} else {
			leaving = append(leaving, testkafka.ControllerName(i))
		}
	}
	text, err := json.Marshal(map[string]any{"members": [][]string{members}, "leaving": leaving,
		"roles": []string{"controller"}, "base": 1000, "domain": testkafka.Domain, "port": d.Port})
	if err != nil {
		d.Fatal(err)
	}
	return string(text)
}

// reach takes steps until the controllers are as wanted, and returns how many voters there were after each.
func (d *dedicated) reach(asked *server, staying int) (voters []int) {
	d.Helper()
	asked.until(fmt.Sprintf("%d controllers vote", staying), func(row map[string]string) bool {
		directories := d.voting(asked)
		if n := len(directories); len(voters) == 0 || voters[len(voters)-1] != n {
			voters = append(voters, n)
		}
		return row["phase"] == "Done"
	}, "members-step", d.shape(staying))
	return voters
}

// voting are the directories of the voters by number.
func (d *dedicated) voting(asked *server) map[string]string {
	d.Helper()
	directories := map[string]string{}
	for _, row := range asked.query("quorum") {
		if row["role"] == "voter" {
			directories[row["node"]] = row["directory"]
		}
	}
	return directories
}

// TestControllersGrowAndShrink: three controllers become five, in as few calls as there are moments at which new ones
// have caught up, and three again, one at a time, as told by a controller that does not lead and by one that does.
func TestControllersGrowAndShrink(t *testing.T) {
	d := newDedicated(t, 3, 1)
	d.broker.must(kafka.KindTopic, topicOf("orders", driver.Create, "partitions", "1", "replication-factor", "1"))
	d.broker.produce("orders", 100)
	if got := d.reach(d.controller, 3); !slices.Equal(got, []int{3}) {
		t.Errorf("the voters change to %v at once", got)
	}
	d.AddController()
	d.AddController()
	if got := d.reach(d.controller, 5); got[0] < 3 || !slices.IsSorted(got) || got[len(got)-1] != 5 {
		t.Errorf("the voters become %v, want never fewer, from 3 on, and 5 in the end", got)
	}
	if got, want := slices.Sorted(maps.Keys(d.voting(d.broker))), []string{"1000", "1001", "1002", "1003",
		"1004"}; !slices.Equal(got, want) {
		t.Errorf("the voters are %v, want %v", got, want)
	}
	d.broker.produce("orders", 100)
	if got := d.reach(d.at(2), 3); got[len(got)-1] != 3 || slices.Contains(got, 2) {
		t.Errorf("the voters become %v, want 4 and 3", got)
	}
	for _, left := range d.Controllers[3:] {
		left.Kill()
	}
	d.Controllers = d.Controllers[:3]
	if got := d.broker.count("orders"); got != 200 {
		t.Errorf("%d of 200 messages are left", got)
	}
	testWithoutControllers(d)
}

// testWithoutControllers: a broker tells who is alive while no controller answers, and serves its clients.
func testWithoutControllers(d *dedicated) {
	for _, controller := range d.Controllers {
		controller.Kill()
	}
	for range 3 {
		status := d.broker.query("status")[0]
		if _, knows := status["controller"]; knows || status["alive"] != "1" {
			d.Errorf("without controllers the status is %v", status)
		}
	}
	d.broker.produce("orders", 100)
	for _, controller := range d.Controllers {
		controller.Start()
	}
	d.broker.until("a controller leads", func(row map[string]string) bool {
		return row["controller"] != "" && row["alive"] == "1"
	}, "status")
}
