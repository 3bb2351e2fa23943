// SPDX-License-Identifier: Apache-2.0

package podapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

const (
	// workloadSets is where the API server has them.
	workloadSets = "/apis/platform.zeroinfra.github.com/v1/namespaces/"
	// maxObject bounds what is read of an object.
	maxObject = 4 << 20
)

// Record reads who may write in a set of the pod's namespace. No resource version is given, so that the API server asks
// its store and not its cache. A set that never had a primary has the zero record. It must not be called concurrently,
// also not with Annotate.
func (p *Pod) Record(ctx context.Context, set string) (permission.Record, error) {
	record, err := p.record(ctx, set)
	if err != nil {
		return permission.Record{}, fmt.Errorf("cannot read WorkloadSet %q: %w", p.namespace+"/"+set, err)
	}
	return record, nil
}

func (p *Pod) record(ctx context.Context, set string) (permission.Record, error) {
	var object struct {
		Status struct {
			Primary permission.Record `json:"primary"`
		} `json:"status"`
	}
	path := workloadSets + url.PathEscape(p.namespace) + "/workloadsets/" + url.PathEscape(set)
	response, err := p.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return permission.Record{}, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(io.LimitReader(response.Body, maxObject)).Decode(&object)
	return object.Status.Primary, err
}
