// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Plan returns the agent plan of a set.
func Plan(ws *platformv1.WorkloadSet) (plan.Plan, error) {
	return decodePlan(ws.Name, ws.Spec.Plan.Raw)
}

func decodePlan(set string, raw []byte) (plan.Plan, error) {
	var p plan.Plan
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return plan.Plan{}, fmt.Errorf("cannot read the plan of WorkloadSet %q: %w", set, err)
	}
	return p, nil
}

// PlanConfigMapData returns the data of the ConfigMap that the pods of a set mount: the key plan.json.
func PlanConfigMapData(ws *platformv1.WorkloadSet) (map[string]string, error) {
	data, err := canonicalJSON(ws.Spec.Plan.Raw)
	if err != nil {
		return nil, fmt.Errorf("cannot read the plan of WorkloadSet %q: %w", ws.Name, err)
	}
	return map[string]string{plan.PlanFile: string(data)}, nil
}

// planDigests are over what has the process take something over: digest over the process, its files and passwords,
// restart over the same without what a reload takes over.
func planDigests(p *plan.Plan) (digest, restart string) {
	passwords := maps.Clone(p.Credentials)
	if reload := p.Process.Reload; reload != nil {
		maps.DeleteFunc(passwords, func(credential, _ string) bool {
			return slices.Contains(reload.Credentials,
				credential)
		})
	}
	return filesDigest(p, p.Files, p.Credentials), filesDigest(p, fixedFiles(p), passwords)
}

// fixedFiles are the files of a plan without what a reload takes over.
func fixedFiles(p *plan.Plan) []plan.File {
	var fixed []plan.File
	for _, file := range p.Files {
		file.Entries = slices.DeleteFunc(slices.Clone(file.Entries), func(e plan.Entry) bool { return e.Dynamic })
		fixed = append(fixed, file)
	}
	return fixed
}

func filesDigest(p *plan.Plan, files []plan.File, passwords map[string]string) string {
	process := p.Process
	if process.Reload != nil {
		reload := *process.Reload
		reload.ResetValues = nil
		process.Reload = &reload
	}
	data := digested(struct {
		Process     plan.Process      `json:"process"`
		Files       []plan.File       `json:"files"`
		Credentials map[string]string `json:"credentials,omitempty"`
		Domain      string            `json:"domain,omitempty"`
	}{process, files, passwords, namesIn(p)})
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// namesIn is the domain of the names that agents put into what a process runs by; empty where there are none. The
// default is left out, so that what runs in nearly every cluster keeps its digests.
func namesIn(p *plan.Plan) string {
	texts := []any{p.Process, p.Files}
	if p.Writing != nil {
		texts = append(texts, p.Writing.PrimaryArgs, p.Writing.ReplicaArgs)
	}
	if strings.HasSuffix(p.Domain, ".svc."+DefaultClusterDomain) || !bytes.Contains(digested(texts), []byte(".fqdn}")) {
		return ""
	}
	return p.Domain
}

// digested is JSON of types that hold only texts, numbers, lists and ordered structs.
func digested(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// decodeTree reads JSON into maps, lists and scalars; numbers stay as they are written.
func decodeTree(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the end of the JSON value")
	}
	return tree, nil
}
