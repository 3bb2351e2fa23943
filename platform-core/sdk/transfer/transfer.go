// SPDX-License-Identifier: Apache-2.0

// Package transfer asks pods that fetch files how far they are. Nothing may be decided on their answers: they come
// without TLS, from pods that have no name.
package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	protocol "github.com/zeroinfra/platform-core/agentproto/transfer"
)

// Port is where pods answer.
const Port = protocol.Port

// Path is what they are asked for.
const Path = protocol.Path

// ExitRefused is the exit code of a pod that ended because the source refuses it, or has something else than is wanted.
const ExitRefused = protocol.ExitRefused

// maxAnswer is as much of an answer as is read, in bytes.
const maxAnswer = 1 << 10

// Progress is how far a transfer is.
type Progress = protocol.Progress

// Ask asks the pod with an IP address. The error says why there is no answer.
func Ask(ctx context.Context, by *http.Client, ip string) (Progress, error) {
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(Port)) + Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Progress{}, err
	}
	response, err := by.Do(request)
	if err != nil {
		return Progress{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Progress{}, fmt.Errorf("it is answered with %q", response.Status)
	}
	var p Progress
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&p); err != nil {
		return Progress{}, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return p, nil
}
