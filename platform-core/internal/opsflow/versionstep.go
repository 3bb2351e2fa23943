// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"strings"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// versionPatience is how long a pod of an instance that is Ready with another version may report the former one: what
// it reports lags behind what it runs.
const versionPatience = time.Minute

// outputDoubted is the time, in RFC 3339, since when an instance is Ready with a version that a pod does not report.
const outputDoubted = "doubted"

// versionBefore are the first outputs of a step that sets the version: which one there was. After the edit nobody could
// tell, so that another attempt keeps it. Other steps have none.
func (r *run) versionBefore(t *optemplate.Step, step *platformv1.StepStatus) map[string]string {
	if t.Engine.Do != optemplate.EngineUpgrade || r.facts.Application == nil {
		return nil
	}
	from, known := step.Outputs[outputFrom]
	if !known {
		from = r.facts.Application.Spec.Version
	}
	return map[string]string{outputFrom: from}
}

// arrived is done when no pod reports the version that an upgrade left. An instance that is Ready with the new one says
// that its pods were made for that; what they run, they say themselves.
func (r *run) arrived(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why}
	}
	wanted := values["version"]
	pod := r.facts.laggard(step.Outputs[outputFrom], wanted)
	if pod == nil {
		delete(step.Outputs, outputDoubted)
		return verdict{}
	}
	if left := r.since(step, outputDoubted).Add(versionPatience).Sub(r.facts.Now); left > 0 {
		return verdict{waiting: fmt.Sprintf("pod %s to report version %s: it reports %s", pod.Name, wanted,
			pod.Report.Version), retry: left}
	}
	return verdict{final: yes, failed: fmt.Sprintf(
		"%s is Ready with version %s, and pod %s still reports %s: the image that it runs is of the former version; see "+
			"what the registry has under the image of that pod, and have it pulled anew",
		r.facts.Declared.Object, wanted, pod.Name, pod.Report.Version)}
}

// laggard is a pod that reports the former version and not the wanted one; nil for none. A report that is neither, as
// of a component that counts its versions in another way, says nothing. Versions that differ in how they are packaged
// alone are one to who runs them.
func (f Facts) laggard(former, wanted string) *Pod {
	former, wanted = released(former), released(wanted)
	if former == wanted || wanted == "" {
		return nil
	}
	for i := range f.Pods {
		pod := &f.Pods[i]
		if said := pod.Report.Version; pod.Presence == PodRunning && isOf(said, former) && !isOf(said, wanted) {
			return pod
		}
	}
	return nil
}

// released is a version without what its packaging adds, which no process reports: 7.2.5 of 7.2.5-alpine, and 16.4 of
// 16.4+2.
func released(version string) string {
	if at := strings.IndexAny(version, "-+"); at >= 0 {
		return version[:at]
	}
	return version
}

// isOf says whether what a pod reports begins with the components of a version: 7.0.15 is of 7.0, and 7.01 is not.
func isOf(reported, version string) bool {
	rest, begins := strings.CutPrefix(reported, version)
	return version != "" && begins && (rest == "" || strings.ContainsRune(".-+", rune(rest[0])))
}
