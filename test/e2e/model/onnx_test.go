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

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinyonnx"
)

// TestInferenceONNX serves a model by the Open Inference Protocol, and moves its stage to another version.
func TestInferenceONNX(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	first, second := tinyonnx.Model(2, 1), tinyonnx.Model(3, 1)
	libraryOf(s, map[string][]byte{"1.onnx": first, "2.onnx": second})
	m := object(s, "Model", "points", fmt.Sprintf(`format: ONNX
stages: {Production: v1}
versions:
  - {name: v1, sha256: "%s", source: {http: {url: "http://library:8080/1.onnx"}}}
  - {name: v2, sha256: "%s", source: {http: {url: "http://library:8080/2.onnx"}}}`, digestOf(first), digestOf(second)))
	i := object(s, "Inference", "points", `{version: "1.21", runtime: onnxruntime,
  modelRef: {name: points, stage: Production},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digestOf(first))
	infer(s, 2*10+5)

	stage := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stages":{"Production":"v2"}}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, m, stage); err != nil {
		s.Fatal(err)
	}
	expectDigest(s, i, digestOf(second))
	infer(s, 3*10+5)

	// A model in another format is refused.
	object(s, "Model", "chat", fmt.Sprintf(
		`{format: GGUF, versions: [{name: v1, sha256: "%s", source: {http: {url: "http://library:8080/1.onnx"}}}]}`,
		digestOf(first)))
	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v1", "stage": nil}})
	s.Eventually(framework.SettleTimeout, "another format is refused", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		if said := fmt.Sprint(i.Object["status"]); !strings.Contains(said, "onnxruntime serves no other format") {
			return fmt.Errorf("its status is %s", said)
		}
		return nil
	})
	infer(s, 3*10+5)
}

// infer has the Service of the Inference points compute with the row 10, 5.
func infer(s *framework.Namespace, want float64) {
	s.Helper()
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true}}
	s.Eventually(framework.SettleTimeout, fmt.Sprintf("it computes %v", want), func() error {
		switch got, code, err := compute(s.Ctx, c, way{address: "inference-points:8080"}, "points"); {
		case err != nil:
			return err
		case got != want:
			return fmt.Errorf("it is answered with %d, %v, want %v", code, got, want)
		}
		return nil
	})
}

// compute has a model compute with the row 10, 5. It returns the result, which is 0 with another code than 200.
func compute(ctx context.Context, c *http.Client, by way, model string) (result float64, code int, err error) {
	const row = `{"id":"a","inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[10,5]}]}`
	url := by.url("/v2/models/" + model + "/infer")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(row))
	if err != nil {
		return 0, 0, err
	}
	request.Host = by.host
	response, err := c.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, response.StatusCode, err
	}
	var answer struct {
		ID      string
		Outputs []struct{ Data []float64 }
	}
	if err := json.Unmarshal(said, &answer); err != nil || answer.ID != "a" || len(answer.Outputs) != 1 ||
		len(answer.Outputs[0].Data) != 1 {
		return 0, response.StatusCode, fmt.Errorf("it is answered with %s (%v)", said, err)
	}
	return answer.Outputs[0].Data[0], response.StatusCode, nil
}
