// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/transfer"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

const (
	// askEvery is how often a pod that fetches is asked how far it is, and so how often that is written.
	askEvery = 10 * time.Second
	// askTimeout is for all pods of a Dataset together: one that cannot be asked holds up nothing for long.
	askTimeout = 2 * time.Second
)

// told is what a pod said of how far it is, and when it was asked.
type told struct {
	at   time.Time
	text string
}

// asker asks pods that fetch versions, and remembers what they said by their Operations.
type asker struct {
	client *http.Client
	lock   sync.Mutex
	said   map[client.ObjectKey]map[string]told
}

func newAsker() *asker {
	// No proxy: pods are asked by their addresses.
	return &asker{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		said: map[client.ObjectKey]map[string]told{}}
}

// before is what the pods of a Dataset said.
func (a *asker) before(key client.ObjectKey) map[string]told {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.said[key]
}

// remember keeps what the pods of a Dataset said; nothing for one that fetches nothing.
func (a *asker) remember(key client.ObjectKey, said map[string]told) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(said) == 0 {
		delete(a.said, key)
		return
	}
	a.said[key] = said
}

// progress says of Operations that run how far what they fetch is, by their names. One whose pod does not say it is
// absent, or has what it said last.
func (c *Controller) progress(ctx context.Context, ds *aiv1.Dataset,
	operations map[string]*platformv1.Operation) (map[string]string, error) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	key := client.ObjectKeyFromObject(ds)
	before, said, texts := c.ask.before(key), map[string]told{}, map[string]string{}
	for name, op := range operations {
		if op.Status.Phase != platformv1.OperationRunning {
			continue
		}
		last, asked := before[name]
		if !asked || !c.now().Before(last.at.Add(askEvery)) {
			ip, err := c.fetching(ctx, op)
			if err != nil {
				return nil, err
			}
			last.at = c.now()
			if ip != "" {
				// One that cannot be asked has what it said last.
				if p, err := transfer.Ask(asking, c.ask.client, ip); err == nil {
					last.text = sentenceOf(p)
				}
			}
		}
		said[name] = last
		if last.text != "" {
			texts[name] = last.text
		}
	}
	c.ask.remember(key, said)
	return texts, nil
}

// fetching is the address of the pod of an Operation that fetches; empty while there is none.
func (c *Controller) fetching(ctx context.Context, op *platformv1.Operation) (string, error) {
	var pods corev1.PodList
	err := c.client.List(ctx, &pods, client.InNamespace(op.Namespace),
		client.MatchingLabels{platformv1.OperationLabel: op.Name, platformv1.StepLabel: fetchStep})
	if err != nil {
		return "", fmt.Errorf("cannot list the pods of Operation %q: %w", op.Name, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
			return pod.Status.PodIP, nil
		}
	}
	return "", nil
}

// sentenceOf says how far a transfer is.
func sentenceOf(p transfer.Progress) string {
	const wholePercent = 100
	text := fetchStep + ": " + humanize.IBytes(uint64(max(p.Bytes, 0)))
	if p.Total > 0 {
		text += fmt.Sprintf(" of %s, %d %%", humanize.IBytes(uint64(p.Total)), min(p.Bytes, p.Total)*wholePercent/p.Total)
	}
	if p.Of > 1 {
		text += fmt.Sprintf(", %d of %d files", p.Files, p.Of)
	}
	return text
}
