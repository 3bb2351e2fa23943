// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// onnxModel computes y = x · (2, 1), where x has any number of rows of two.
const onnxModel = "CAg6XQoRCgF4CgF3EgF5IgZNYXRNdWwSAWcqEwgCCAEQAUIBd0oIAAAAQAAAgD9aFwoBeBISChAIARIMCgYSBHJvd3" +
	"MKAggCYhcKAXkSEgoQCAESDAoGEgRyb3dzCgIIAUIECgAQDQ=="

// onnxScript runs the server at a port, and prints what clients see of it.
const onnxScript = `
PATH=/usr/local/bin:$PATH
to=http://127.0.0.1:%d
ask() { wget -q -O - "$@" 2>&1; echo; }
infer() { ask --header "Authorization: Bearer $1" --post-data "$2" $to/v2/models/points/infer; }
export API_KEY_FILE=/tmp/key
onnx-server --model /tmp/points.onnx --name points --host 127.0.0.1 --port %[1]d >/tmp/log 2>&1 & pid=$!
n=0; until wget -q -O /dev/null $to/v2/health/ready 2>/dev/null; do
  n=$((n+1)); [ $n -lt 600 ] || { cat /tmp/log; exit 1; }; sleep 0.1
done
ask $to/v2/models/points
ask --header "Authorization: Bearer k" $to/v2/models/points
infer k '{"id":"7","inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"data":[10,5,1,1]}]}'
infer other '{}'
infer k '{"inputs":[]}'
ask --header "Authorization: Bearer k" $to/metrics | grep -v -e '^#' -e seconds
kill -TERM $pid; wait $pid; echo "ended with $?"
cat /tmp/log
`

// TestONNXRuntime builds the real image, and has the server answer by the Open Inference Protocol, without and with the
// key.
func TestONNXRuntime(t *testing.T) {
	root := unpacked(t, "zeroinfra/onnxruntime:1.21")
	if os.Geteuid() != 0 {
		return
	}
	model, err := base64.StdEncoding.DecodeString(onnxModel)
	if err != nil {
		t.Fatal(err)
	}
	// The runtime reads what the processor is.
	processor, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for file, content := range map[string]string{"dev/null": "", "proc/cpuinfo": string(processor), "tmp/key": "k",
		"tmp/points.onnx": string(model)} {
		path := filepath.Join(root, file)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o666),
			os.Chmod(path, 0o666))
	}
	errs = append(errs, os.Chmod(filepath.Join(root, "tmp"), 0o777))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := inside(root, 999, "/bin/sh", "-c", fmt.Sprintf(onnxScript, port))
	want := []string{"wget: server returned error: HTTP/1.1 401",
		`"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]`,
		`"shape": [2, 1], "data": [25.0, 3.0]}], "id": "7"}`, "wget: server returned error: HTTP/1.1 401",
		"wget: server returned error: HTTP/1.1 400", "open_inference_requests_processing 0\n" +
			"open_inference_requests_total 2\nopen_inference_requests_failed_total 1\n", "ended with 0\nserving points"}
	rest := out
	for _, line := range want {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("got %v and\n%s\nwithout %q where it should be", err, out, line)
		}
		rest = after
	}
	if strings.Count(strings.TrimSpace(rest), "\n") > 0 {
		t.Errorf("it logs more than a line:\n%s", rest)
	}
}
