// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// operator is the chart that brings the kinds Model and Inference.
const operator = "model-operator"

// answerTimeout is how long a completion of a few tokens may take before another one is tried.
const answerTimeout = 20 * time.Second

// TestSmokeModel serves a model, moves its stage to another version, and deletes both.
func TestSmokeModel(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	m := object(s, "Model", "chat", modelSpec(digests, 1))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, stage: Production}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	complete(s, "inference-chat")

	stage := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stages":{"Production":"v2"}}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, m, stage); err != nil {
		s.Fatal(err)
	}
	expectDigest(s, i, digests[2])
	complete(s, "inference-chat")

	// The Model goes with what uses it.
	s.Delete(m)
	s.Delete(i)
	s.Eventually(framework.ReadyTimeout, "the Model goes", func() error {
		err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(m), m)
		if err == nil {
			return fmt.Errorf("it is still there: %v", m.Object["status"])
		}
		return framework.ErrUnlessNotFound(err)
	})
	s.UninstallOperator(operator)
}

// expectDigest waits until all pods of an Inference serve a file.
func expectDigest(s *framework.Namespace, i *unstructured.Unstructured, digest string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the Inference serves "+digest, func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(i.Object, "status", "model", "digest"); got != "sha256:"+digest {
			return fmt.Errorf("it serves %q", got)
		}
		return nil
	})
}

// complete has a Service complete a prompt by OpenAI's API.
func complete(s *framework.Namespace, service string) {
	s.Helper()
	ways := s.NewPortForwards()
	// A pod whose node was just cut off may be among those that the Service leads to, and answers nothing at all.
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true},
		Timeout: answerTimeout}
	s.Eventually(framework.SettleTimeout, "a completion",
		func() error { return completion(s.Ctx, c, "http://"+service+":8080/v1/completions") })
}

// completion is one request, whose answer must have counted the tokens that it generated.
func completion(ctx context.Context, c *http.Client, url string) error {
	tokens, err := tokensOf(ctx, c, url, `{"prompt":"hello","max_tokens":4}`)
	if err == nil && tokens < 1 {
		err = fmt.Errorf("an answer of %d tokens", tokens)
	}
	return err
}

// tokensOf has the model chat complete a text, and returns how many tokens its answer counts.
func tokensOf(ctx context.Context, c *http.Client, url, body string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Model string
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(said, &answer); err != nil || response.StatusCode != http.StatusOK ||
		answer.Model != "chat" {
		return 0, fmt.Errorf("it is answered with %s: %.1000s (%v)", response.Status, said, err)
	}
	return answer.Usage.CompletionTokens, nil
}
