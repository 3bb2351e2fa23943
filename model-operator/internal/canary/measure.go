// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// port of the servers.
	port = 8080
	// answerTimeout is how long a server may take for the test request, and for its metrics.
	answerTimeout = 10 * time.Second
	// maxAnswer is as much of an answer as is read.
	maxAnswer = 1 << 20
)

// asker asks servers.
type asker struct{ client *http.Client }

func newAsker() *asker {
	// No proxy: pods are asked by their addresses.
	return &asker{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: answerTimeout}}
}

// round measures all pods at the same time. The key is what clients of the servers show; empty for none.
func (a *asker) round(ctx context.Context, pods []corev1.Pod, key string) map[string]sample {
	var lock sync.Mutex
	var all sync.WaitGroup
	samples := map[string]sample{}
	for _, pod := range pods {
		all.Go(func() {
			s := a.measure(ctx, target{net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)), key}, metersOf(pod.Annotations))
			lock.Lock()
			defer lock.Unlock()
			samples[pod.Name] = s
		})
	}
	all.Wait()
	return samples
}

// target is where a server is asked, and the key that it asks for; empty for none.
type target struct{ address, key string }

// measure makes the test request at one server, and reads its counters. One whose requests are counted has failed one
// where it does not tell the counters; of another one it is the test request that counts.
func (a *asker) measure(ctx context.Context, of target, by meters) sample {
	var s sample
	if by.testPath != "" {
		method := http.MethodPost
		if by.testBody == "" {
			method = http.MethodGet
		}
		if _, err := a.answer(ctx, of, method, by.testPath, by.testBody); err != nil && !by.countsFailures() {
			s.failure = err.Error()
		}
	}
	text, err := a.answer(ctx, of, http.MethodGet, "/metrics", "")
	if err != nil {
		if by.testPath == "" || by.countsFailures() {
			s.failure = err.Error()
		}
		return s
	}
	s.requests, s.failed, s.requestSeconds = sum(text, by.requests), sum(text, by.failed), sum(text, by.requestSeconds)
	s.tokens, s.seconds = sum(text, by.tokens), sum(text, by.tokenSeconds)
	s.clients, s.timed, s.counted = by.countsFailures(), by.timesRequests(), by.timesTokens()
	return s
}

// sum adds the metrics of a list.
func sum(text, list string) (all float64) {
	for name := range strings.FieldsSeq(list) {
		// A series of a label appears with the first request that has it.
		value, _ := metric(text, name)
		all += value
	}
	return all
}

func (a *asker) answer(ctx context.Context, of target, method, path, content string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+of.address+path, bytes.NewBufferString(content))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if of.key != "" {
		request.Header.Set("Authorization", "Bearer "+of.key)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return "", err
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("it is answered with %q", response.Status)
	}
	return string(said), nil
}

// metric is the sum of the series of a metric, in a text in Prometheus' format. A name with labels, such as
// requests_total{status="500"}, is that of the series with these labels. It is false where there is no such series.
func metric(text, selector string) (sum float64, found bool) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
	for line := range strings.Lines(text) {
		series, has := strings.CutPrefix(strings.TrimSpace(line), name)
		if !has || !strings.HasPrefix(series, " ") && !strings.HasPrefix(series, "{") {
			continue
		}
		// A value of a label may hold a brace; what follows the last one does not.
		end := strings.LastIndex(series, "}") + 1
		fields := strings.Fields(series[end:])
		if len(fields) == 0 || !hasLabels(series[:end], labels) {
			continue
		}
		if value, err := strconv.ParseFloat(fields[0], 64); err == nil {
			sum, found = sum+value, true
		}
	}
	return sum, found
}

// hasLabels says whether the labels of a series, in braces, include those that are named.
func hasLabels(series, named string) bool {
	series = "," + strings.Trim(series, " {}") + ","
	for label := range strings.SplitSeq(named, ",") {
		if label != "" && !strings.Contains(series, ","+label+",") {
			return false
		}
	}
	return true
}
