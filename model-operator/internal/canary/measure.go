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

// asker asks servers.
type asker struct{ client *http.Client }

func newAsker() *asker {
	// No proxy: pods are asked by their addresses.
	return &asker{&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: answerTimeout}}
}

// round asks all pods at the same time.
func (a *asker) round(ctx context.Context, pods []corev1.Pod) map[string]sample {
	var lock sync.Mutex
	var all sync.WaitGroup
	samples := map[string]sample{}
	for _, pod := range pods {
		all.Go(func() {
			s := a.ask(ctx, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)))
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

// metric is one of a text in Prometheus' format.
func metric(text, name string) (float64, bool) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return number, err == nil
		}
	}
	return 0, false
}
