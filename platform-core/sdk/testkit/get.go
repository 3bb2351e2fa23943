// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Get is the answer to a GET, such as of a probe's address. Any status but 200 is an error, which has the answer.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}
