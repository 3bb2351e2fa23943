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

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

const (
	// port of the servers.
	port = 8080
	// answerTimeout is how long a server may take for a completion, and for its metrics.
	answerTimeout = 10 * time.Second
	// maxAnswer is as much of an answer as is read.
	maxAnswer = 1 << 20
	// completion is what servers are asked for.
	completion = `{"prompt":"Hello","n_predict":8,"ignore_eos":true}`
	// Metrics of the servers, which grow.
	tokensMetric  = "llamacpp:tokens_predicted_total"
	secondsMetric = "llamacpp:tokens_predicted_seconds_total"
)

// counters name the metrics of a server that counts its requests.
type counters struct{ requests, failed, seconds string }

// countersOf are those that the plugin of the runtime names in a pod.
func countersOf(pod *corev1.Pod) counters {
	return counters{pod.Annotations[aiv1.RequestsMetricAnnotation], pod.Annotations[aiv1.FailedRequestsMetricAnnotation],
		pod.Annotations[aiv1.RequestSecondsMetricAnnotation]}
}

// asker asks servers.
type asker struct{ client *http.Client }

func newAsker() *asker {
	// No proxy: pods are asked by their addresses.
	return &asker{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: answerTimeout}}
}

// round asks all pods at the same time. Those of the runtime llama-cpp complete a prompt.
func (a *asker) round(ctx context.Context, pods []corev1.Pod, completes bool) map[string]sample {
	var lock sync.Mutex
	var all sync.WaitGroup
	samples := map[string]sample{}
	for _, pod := range pods {
		all.Go(func() {
			address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port))
			var s sample
			if completes {
				s = a.ask(ctx, address)
			} else {
				s = a.read(ctx, address, countersOf(&pod))
			}
			lock.Lock()
			defer lock.Unlock()
			samples[pod.Name] = s
		})
	}
	all.Wait()
	return samples
}

// ask has one server complete a prompt, and reads its metrics.
func (a *asker) ask(ctx context.Context, address string) sample {
	var s sample
	if _, err := a.answer(ctx, http.MethodPost, "http://"+address+"/completion", completion); err != nil {
		s.failure = err.Error()
	}
	text, err := a.answer(ctx, http.MethodGet, "http://"+address+"/metrics", "")
	if err != nil {
		return s
	}
	tokens, hasTokens := metric(text, tokensMetric)
	seconds, hasSeconds := metric(text, secondsMetric)
	s.tokens, s.seconds, s.counted = tokens, seconds, hasTokens && hasSeconds
	return s
}

// read takes the counters of one server. One that does not tell them has failed a request.
func (a *asker) read(ctx context.Context, address string, of counters) sample {
	text, err := a.answer(ctx, http.MethodGet, "http://"+address+"/metrics", "")
	if err != nil {
		return sample{failure: err.Error()}
	}
	s := sample{clients: true}
	s.requests, s.failed, s.requestSeconds = sum(text, of.requests), sum(text, of.failed), sum(text, of.seconds)
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

func (a *asker) answer(ctx context.Context, method, url, content string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(content))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
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
