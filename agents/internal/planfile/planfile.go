// SPDX-License-Identifier: Apache-2.0

// Package planfile reads plans, checks them, and turns one into what can be
// started: a command with its environment, and files with their content.
//
// Two plans can be at hand: the mounted one (a ConfigMap, which the kubelet
// brings up to date with a delay) and one that was pushed with a call. The pushed
// one is kept beside the sum of the mounted one's file at that time; as soon as
// that file has another, it is newer, and it is used.
package planfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

// pushedFile is where a pushed plan is kept below the run folder.
const pushedFile = "pushed-plan.json"

// Dirs are the folders of a pod, and its name. The package plan names where they are; tests have their own.
type Dirs struct {
	// Plan holds the mounted plan.
	Plan string
	// Config is where configuration files may be written.
	Config string
	// Run lives as long as the pod.
	Run string
	// Secrets holds one folder per credential.
	Secrets string
	// Certificates holds the middleware's certificate, where it speaks TLS.
	Certificates string
	// PodName is what ${pod.name} stands for in a plan.
	PodName string
	// HostIP is the address of the pod's node, for a plan by which the pod is reached there.
	HostIP string
	// Pod holds what the operator writes onto the pod once it is on a node, for a plan that asks for it.
	Pod string
}

// Parse reads a plan and checks it as it is for this pod; it is returned as it was written. Fields that it does not
// know are ignored, because a newer engine may serve an older agent.
func (d Dirs) Parse(data []byte) (*plan.Plan, error) {
	var p plan.Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("cannot read plan: %w", err)
	}
	here, err := d.Expand(&p)
	if err != nil {
		return nil, fmt.Errorf("cannot use plan: %w", err)
	}
	if err := d.validate(here); err != nil {
		return nil, fmt.Errorf("cannot use plan: %w", err)
	}
	return &p, nil
}

// Expand fills in what is true of this pod. The result is to be carried out and never kept: it must not be expanded
// again.
func (d Dirs) Expand(p *plan.Plan) (*plan.Plan, error) {
	pod := d.pod(p)
	here, err := p.Rewrite(func(text string) (string, error) { return podtext.Expand(text, pod) })
	if err != nil {
		return nil, err
	}
	here.Digest, here.RestartDigest = p.DigestsOf(d.PodName)
	return here, nil
}

// pod is what a plan can ask of this pod.
func (d Dirs) pod(p *plan.Plan) podtext.Pod {
	pod := podtext.PodOf(d.PodName, p.Domain)
	pod.Zone = d.zone()
	if p.External == nil {
		return pod
	}
	if address, ok := p.External.Pods[d.PodName]; ok {
		pod.External = podtext.External{Host: cmp.Or(address.Host, d.HostIP), Port: address.Port}
	}
	return pod
}

// zone of the pod's node; nil while the operator has not told it, and in a pod whose plan does not ask for it.
func (d Dirs) zone() *string {
	if d.Pod == "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(d.Pod, plan.ZoneFile))
	if err != nil {
		return nil
	}
	var zone *string
	if json.Unmarshal(data, &zone) != nil {
		return nil
	}
	return zone
}

// Mounted reads the plan that the pod mounts.
func (d Dirs) Mounted() (*plan.Plan, error) {
	p, _, err := d.mounted()
	return p, err
}

// mounted gives the sum of the file, too.
func (d Dirs) mounted() (*plan.Plan, string, error) {
	path := d.MountedPath()
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the mounted plan: %w", err)
	}
	p, err := d.Parse(data)
	if err != nil {
		return nil, "", fmt.Errorf("file %q: %w", path, err)
	}
	return p, fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// MountedPath is the file of the mounted plan.
func (d Dirs) MountedPath() string {
	return filepath.Join(d.Plan, plan.PlanFile)
}

// pushed is the content of the file of the pushed plan.
type pushed struct {
	// MountedSum is of the file of the mounted plan when this one was pushed; "" when that was no plan. It is not the
	// plan's digest, which tells nothing of actions and of who may write.
	MountedSum string          `json:"mountedSum"`
	Plan       json.RawMessage `json:"plan"`
}

// Push keeps a plan that came with a call.
func (d Dirs) Push(p *plan.Plan) error {
	record := pushed{}
	// A mounted plan that cannot be read has no sum, and any readable one replaces this one later.
	if _, sum, err := d.mounted(); err == nil {
		record.MountedSum = sum
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("cannot keep the pushed plan: %w", err)
	}
	record.Plan = raw
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("cannot keep the pushed plan: %w", err)
	}
	return atomicfile.Write(filepath.Join(d.Run, pushedFile), data, 0o640)
}

// Current returns the plan to use: the pushed one while the mounted one is still
// the same as when it came (or cannot be read), else the mounted one.
func (d Dirs) Current() (*plan.Plan, error) {
	mounted, sum, mountedErr := d.mounted()
	record, kept, err := d.readPushed()
	switch {
	case err != nil && mountedErr != nil:
		return nil, errors.Join(mountedErr, err)
	case kept == nil && mountedErr != nil:
		return nil, mountedErr
	case kept == nil || err != nil:
		return mounted, nil
	case mountedErr != nil || sum == record.MountedSum:
		return kept, nil
	}
	return mounted, nil
}

// readPushed returns a nil plan when none was pushed.
func (d Dirs) readPushed() (pushed, *plan.Plan, error) {
	var record pushed
	path := filepath.Join(d.Run, pushedFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return record, nil, nil
	}
	if err != nil {
		return record, nil, fmt.Errorf("cannot read the pushed plan: %w", err)
	}
	if err := json.Unmarshal(data, &record); err != nil {
		return record, nil, fmt.Errorf("cannot read file %q: %w", path, err)
	}
	p, err := d.Parse(record.Plan)
	if err != nil {
		return record, nil, fmt.Errorf("file %q: %w", path, err)
	}
	return record, p, nil
}
