// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// scrapeDeadline bounds the reading of the cache for one scrape.
const scrapeDeadline = 5 * time.Second

// Conditions counts the conditions of objects when it is scraped, from the cache.
// Nothing is kept between scrapes, so the figures cannot drift from the objects.
type Conditions struct {
	reader      client.Reader
	kinds       map[string]func() client.ObjectList
	description *prometheus.Desc
}

// NewConditions returns a collector over the kinds of the given objects. The
// reader is a cache that already watches them.
func NewConditions(reader client.Reader, scheme *runtime.Scheme, objects ...client.Object) (*Conditions, error) {
	c := &Conditions{
		reader: reader,
		kinds:  map[string]func() client.ObjectList{},
		description: prometheus.NewDesc("zeroinfra_condition",
			"Objects by kind and by the type and status of each of their conditions.",
			[]string{"kind", "type", "status"}, nil),
	}
	for _, object := range objects {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return nil, fmt.Errorf("cannot count the conditions of %T: %w", object, err)
		}
		list := gvk
		list.Kind += "List"
		empty, err := scheme.New(list)
		if err != nil {
			return nil, fmt.Errorf("cannot count the conditions of kind %q: %w", gvk.Kind, err)
		}
		prototype, ok := empty.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("cannot count the conditions of kind %q: %T is no list", gvk.Kind, empty)
		}
		c.kinds[gvk.Kind] = func() client.ObjectList { return prototype.DeepCopyObject().(client.ObjectList) }
	}
	return c, nil
}

// Describe implements prometheus.Collector.
func (c *Conditions) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.description }

// Collect implements prometheus.Collector.
func (c *Conditions) Collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeDeadline)
	defer cancel()
	for kind, newList := range c.kinds {
		counts, err := c.count(ctx, newList())
		if err != nil {
			// One kind that cannot be read must not take all other metrics with it.
			log.Log.WithName("telemetry").Error(err, "cannot count the conditions", "kind", kind)
			continue
		}
		for key, count := range counts {
			collected <- prometheus.MustNewConstMetric(c.description, prometheus.GaugeValue, float64(count), kind,
				key.conditionType, key.status)
		}
	}
}

type conditionKey struct{ conditionType, status string }

func (c *Conditions) count(ctx context.Context, list client.ObjectList) (map[conditionKey]int, error) {
	// The objects are only looked at, so the cache need not copy them.
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	counts := map[conditionKey]int{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(platformv1.Conditioned); ok {
			for _, condition := range obj.GetConditions() {
				counts[conditionKey{condition.Type, string(condition.Status)}]++
			}
		}
		return nil
	})
	return counts, err
}
