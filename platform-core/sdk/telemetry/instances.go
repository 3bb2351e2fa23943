// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// Instances tells of each Application what its status says, when it is scraped, from the cache. Nothing is kept between
// scrapes: the series of an Application go with it. There are as many as figures below, and one for each role that its
// plugin declares.
type Instances struct {
	reader client.Reader
	// ready, term, primary, durability and loss are of one series at most for each Application; pods of one for each role.
	ready, term, primary, durability, loss, pods *prometheus.Desc
}

// NewInstances returns a collector over the Applications of a cache that already watches them.
func NewInstances(reader client.Reader) *Instances {
	describe := func(name, help string, further ...string) *prometheus.Desc {
		return prometheus.NewDesc("zeroinfra_application_"+name, help,
			append([]string{"namespace", "application"}, further...), nil)
	}
	return &Instances{
		reader:  reader,
		ready:   describe("ready", "1 while an Application is Ready, else 0."),
		term:    describe("term", "Grows at each change of the primary, where the engine chooses it."),
		primary: describe("primary", "1 while there is a primary, 0 while there is none, where the engine chooses it."),
		durability: describe("durability", "1, with what becomes of a write that was acknowledged when the primary that "+
			"took it is lost.", "durability"),
		loss: describe("loss_window_seconds",
			"Of how many seconds acknowledged writes can be lost when another pod takes over; absent where nothing bounds it."),
		pods: describe("pods", "Pods of an Application by the role that they have.", "role"),
	}
}

// Describe implements prometheus.Collector.
func (i *Instances) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{i.ready, i.term, i.primary, i.durability, i.loss, i.pods} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (i *Instances) Collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeDeadline)
	defer cancel()
	var list platformv1.ApplicationList
	// The objects are only looked at, so the cache need not copy them.
	if err := i.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		// That these cannot be read must not take all other metrics with it.
		log.Log.WithName("telemetry").Error(err, "cannot tell of Applications")
		return
	}
	for n := range list.Items {
		i.tell(&list.Items[n], collected)
	}
}

// tell sends the series of one Application.
func (i *Instances) tell(app *platformv1.Application, collected chan<- prometheus.Metric) {
	send := func(description *prometheus.Desc, value float64, further ...string) {
		labels := append([]string{app.Namespace, app.Name}, further...)
		collected <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	s := &app.Status
	send(i.ready, truth(conditions.IsTrue(app, platformv1.ReadyCondition)))
	// A term is there where the engine decides, and from the first pod that it named on.
	if s.Term > 0 {
		send(i.term, float64(s.Term))
		send(i.primary, truth(s.Primary != ""))
	}
	if s.Durability != "" {
		send(i.durability, 1, string(s.Durability))
	}
	if s.LossWindowSeconds != nil {
		send(i.loss, float64(*s.LossWindowSeconds))
	}
	roles := map[string]int{}
	for _, component := range s.Components {
		for _, pod := range component.Pods {
			if pod.Role != "" {
				roles[pod.Role]++
			}
		}
	}
	for role, count := range roles {
		send(i.pods, float64(count), role)
	}
}

// truth is how a gauge says yes and no.
func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
