// SPDX-License-Identifier: Apache-2.0

package model

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinygguf"
)

// TestInferenceAdapters has a request say by which adapter it is answered, puts another version of the adapter into
// production, has the base come from an image, and refuses an adapter of another base, and the promotion of one whose
// base is missing.
func TestInferenceAdapters(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	base, first, second := tinygguf.Model(1), tinygguf.Adapter(7), tinygguf.Adapter(8)
	files := map[string][]byte{"m1.gguf": base, "a7.gguf": first, "a8.gguf": second}
	imageOf(s, files, "models/chat", "1.0", "models/m1.gguf", base)
	libraryOf(s, files)
	object(s, "Model", "chat", fmt.Sprintf(`format: GGUF
versions:
  - {name: v1, sha256: "%[1]s", source: {http: {url: "http://library:8080/m1.gguf"}}}
  - {name: v1-image, sha256: "%[1]s", source: {oci: {image: "library.%[2]s.svc.cluster.local:8080/models/chat:1.0",
      path: models/m1.gguf}}}`, digestOf(base), s.Name))
	adapter := `format: GGUF
requires: [{name: %s}]
stages: {Production: v1}
versions:
  - {name: v1, sha256: "%s", source: {http: {url: "http://library:8080/a7.gguf"}}}
  - {name: v2, sha256: "%s", source: {http: {url: "http://library:8080/a8.gguf"}}}`
	poet := object(s, "Model", "poet", fmt.Sprintf(adapter, "chat", digestOf(first), digestOf(second)))
	object(s, "Model", "odd", fmt.Sprintf(adapter, "poet", digestOf(first), digestOf(second)))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, version: v1}, parameters: {ctx-size: 512},
  adapters: [{name: poet, stage: Production, scale: 0}],
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectAdapter(s, i, "v1", digestOf(first))
	plain, adapted := saidBy(s, ""), saidBy(s, `,"lora":[{"id":0,"scale":1}]`)
	if plain == adapted || plain != saidBy(s, "") {
		s.Errorf("the model says %q, and with the adapter %q", plain, adapted)
	}

	// What is in use stays; another version takes its place.
	out := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/stages"},`+
		`{"op":"remove","path":"/spec/versions/0"}]`))
	s.Eventually(framework.SettleTimeout, "the version is in use", func() error {
		err := framework.Cluster.Client.Patch(s.Ctx, poet, out, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "a version that an Inference uses cannot be taken out") {
			return fmt.Errorf("taking out a version in use: %w", err)
		}
		return nil
	})
	stage := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stages":{"Production":"v2"}}}`))
	expectRefused(s, object(s, "Model", "lost", fmt.Sprintf(adapter, "nobody", digestOf(first), digestOf(second))), stage)
	if err := framework.Cluster.Client.Patch(s.Ctx, poet, stage); err != nil {
		s.Fatal(err)
	}
	expectAdapter(s, i, "v2", digestOf(second))
	if other := saidBy(s, `,"lora":[{"id":0,"scale":1}]`); other == adapted || other == plain {
		s.Errorf("with the second version the model says %q, and with the first %q", other, adapted)
	}

	edit(s, i, map[string]any{"modelRef": map[string]any{"name": "chat", "version": "v1-image"}})
	s.Eventually(framework.ReadyTimeout, "the base is that of the image", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(i.Object, "status", "model", "version"); got != "v1-image" {
			return fmt.Errorf("it serves %q", got)
		}
		return nil
	})
	s.WaitForReady(i)
	if got := saidBy(s, ""); got != plain {
		s.Errorf("the base of the image says %q, and that of the web server %q", got, plain)
	}

	edit(s, i, map[string]any{"adapters": []any{map[string]any{"name": "odd", "version": "v1"}}})
	s.Eventually(framework.SettleTimeout, "an adapter of another base is refused", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(i.Object, "status", "conditions")
		if said := fmt.Sprint(all); !strings.Contains(said, `which does not require Model "chat"`) {
			return fmt.Errorf("the conditions are %s", said)
		}
		return nil
	})
	if got := saidBy(s, ""); got != plain {
		s.Errorf("after the refusal the model says %q, and before %q", got, plain)
	}
}

// expectRefused waits until an adapter whose base is missing is not promoted: the webhook may be away for a moment.
func expectRefused(s *framework.Namespace, adapter *unstructured.Unstructured, stage client.Patch) {
	s.Helper()
	s.Eventually(framework.SettleTimeout, "a stage of an adapter without its base is refused", func() error {
		err := framework.Cluster.Client.Patch(s.Ctx, adapter, stage, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), `names Model "nobody", which does not exist: create it`) {
			return fmt.Errorf("promoting an adapter without its base: %v", err)
		}
		return nil
	})
}

// expectAdapter waits until all pods of an Inference have a version of the adapter poet.
func expectAdapter(s *framework.Namespace, i *unstructured.Unstructured, version, digest string) {
	s.Helper()
	want := fmt.Sprint([]any{map[string]any{"id": int64(0), "name": "poet", "version": version,
		"digest": "sha256:" + digest}})
	s.Eventually(framework.ReadyTimeout, "the Inference has version "+version+" of the adapter", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(i.Object, "status", "adapters")
		if got := fmt.Sprint(all); got != want {
			return fmt.Errorf("its adapters are %s, want %s", got, want)
		}
		return framework.Current(i)
	})
	s.WaitForReady(i)
}

// saidBy are the tokens that the model says most likely, by a request with what is added to it.
func saidBy(s *framework.Namespace, added string) string {
	s.Helper()
	ways := s.NewPortForwards()
	c := &http.Client{Transport: &http.Transport{DialContext: ways.DialService, DisableKeepAlives: true}}
	var said string
	s.Eventually(framework.SettleTimeout, "a completion", func() error {
		var err error
		said, err = likeliest(s.Ctx, c, added)
		return err
	})
	return said
}

func likeliest(ctx context.Context, c *http.Client, added string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inference-chat:8080/completion",
		strings.NewReader(`{"prompt":"hello","n_predict":16,"temperature":0,"ignore_eos":true,"return_tokens":true`+
			added+`}`))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var answer struct{ Tokens []int }
	if err := json.Unmarshal(content, &answer); err != nil || len(answer.Tokens) != 16 {
		return "", fmt.Errorf("it is answered with %s: %s (%v)", response.Status, content, err)
	}
	return fmt.Sprint(answer.Tokens), nil
}

// imageOf adds the files by which a web server is a registry with an image that has a file.
func imageOf(s *framework.Namespace, files map[string][]byte, name, tag, path string, content []byte) {
	s.Helper()
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	if err := archive.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
		s.Fatal(err)
	}
	if _, err := archive.Write(content); err != nil {
		s.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		s.Fatal(err)
	}
	config := []byte("{}")
	blob := func(kind string, data []byte) map[string]any {
		files["v2/"+name+"/blobs/sha256:"+digestOf(data)] = data
		return map[string]any{"mediaType": kind, "digest": "sha256:" + digestOf(data), "size": len(data)}
	}
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2,
		"mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config":    blob("application/vnd.oci.image.config.v1+json", config),
		"layers":    []any{blob("application/vnd.oci.image.layer.v1.tar", layer.Bytes())}})
	if err != nil {
		s.Fatal(err)
	}
	files["v2/"+name+"/manifests/"+tag] = manifest
	// By this a client knows that there is a registry.
	files["v2/index.html"] = []byte("{}")
}
