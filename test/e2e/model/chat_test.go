// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// chatTokens are generated for each message.
const chatTokens = 8

// TestInferenceChat has a client chat by OpenAI's API, for whole answers and for streams, with a version that is named
// by modelRef. That version cannot be taken out of its Model meanwhile, and can once the Inference is gone.
func TestInferenceChat(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	m := object(s, "Model", "chat", modelSpec(digests, 2))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, version: v1}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true},
		Timeout: answerTimeout}
	s.Eventually(framework.SettleTimeout, "an answer as a whole", func() error { return chats(s.Ctx, c) })
	s.Eventually(framework.SettleTimeout, "an answer as a stream", func() error { return streams(s.Ctx, c) })

	s.Eventually(framework.SettleTimeout, "the version is in use", func() error {
		err := takenOut(s, m, "v1")
		if err == nil || !strings.Contains(err.Error(), "a version that an Inference uses cannot be taken out") {
			return fmt.Errorf("taking out a version in use: %w", err)
		}
		return nil
	})
	if err := chats(s.Ctx, c); err != nil {
		s.Errorf("after the refusal: %v", err)
	}
	s.Delete(i)
	s.Eventually(framework.ReadyTimeout, "the version is not in use", func() error { return takenOut(s, m, "v1") })
}

// takenOut tries to take a version out of a Model, and changes nothing.
func takenOut(s *framework.Namespace, m *unstructured.Unstructured, version string) error {
	if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return err
	}
	all, _, err := unstructured.NestedSlice(m.Object, "spec", "versions")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v any) bool { return v.(map[string]any)["name"] == version })
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": all}})
	if err != nil {
		return err
	}
	return framework.Cluster.Client.Patch(s.Ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, patch),
		client.DryRunAll)
}

// said asks the Service of the Inference chat for the next message of a conversation.
func said(ctx context.Context, c *http.Client, more string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inference-chat:8080/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"chat","messages":[{"role":"system","content":"Be brief."},`+
			`{"role":"user","content":"Hello"}],"max_tokens":%d,"ignore_eos":true%s}`, chatTokens, more)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("it is answered with %s", response.Status)
	}
	return response, err
}

// usage is what a client is told to have used.
type usage struct {
	CompletionTokens int `json:"completion_tokens"`
}

// chats has the model answer a message as a whole.
func chats(ctx context.Context, c *http.Client) error {
	response, err := said(ctx, c, "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Object, Model string
		Choices       []struct {
			Message struct{ Role, Content string }
		}
		Usage usage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Object != "chat.completion" || answer.Model != "chat" || len(answer.Choices) != 1 ||
		answer.Choices[0].Message.Role != "assistant" || answer.Choices[0].Message.Content == "" ||
		answer.Usage.CompletionTokens != chatTokens {
		return fmt.Errorf("it is answered with %+v", answer)
	}
	return nil
}

// streams has the model answer a message by events, each with a part of it.
func streams(ctx context.Context, c *http.Client) error {
	response, err := said(ctx, c, `,"stream":true,"stream_options":{"include_usage":true}`)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("a stream is of the type %q", kind)
	}
	parts, last, used := 0, "", usage{}
	events := bufio.NewScanner(response.Body)
	for events.Scan() {
		event, is := strings.CutPrefix(events.Text(), "data: ")
		if !is {
			continue
		}
		if last = event; event == "[DONE]" {
			break
		}
		var part struct {
			Object  string
			Choices []struct{ Delta struct{ Content string } }
			Usage   *usage
		}
		if err := json.Unmarshal([]byte(event), &part); err != nil || part.Object != "chat.completion.chunk" {
			return fmt.Errorf("an event is %s (%v)", event, err)
		}
		if len(part.Choices) > 0 && part.Choices[0].Delta.Content != "" {
			parts++
		}
		if part.Usage != nil {
			used = *part.Usage
		}
	}
	if err := events.Err(); err != nil || last != "[DONE]" || parts < 2 || used.CompletionTokens != chatTokens {
		return fmt.Errorf("a stream of %d parts has %+v and ends with %q (%v)", parts, used, last, err)
	}
	return nil
}
