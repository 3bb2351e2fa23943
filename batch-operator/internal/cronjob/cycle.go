// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// mostFollowed is how many CronJobs are read at most to find a cycle of dependencies.
const mostFollowed = 100

// leads are the names of the CronJobs whose success one waits for. It runs all the same without that of the others.
func leads(cj *batchv1.CronJob) []string {
	var names []string
	for _, d := range cj.Spec.DependsOn {
		if key := dependencyOf(d); key.kind == batchv1.DependsOnCronJob && d.Otherwise != batchv1.DependencyRun {
			names = append(names, key.name)
		}
	}
	return names
}

// cycleOf are the names of the CronJobs by which one depends on itself, the fewest, with its own at both ends; empty
// for none. read returns nil for one that does not exist.
func cycleOf(cj *batchv1.CronJob, read func(name string) (*batchv1.CronJob, error)) ([]string, error) {
	// from says by which CronJob each of the others was found.
	from := map[string]string{}
	for next := []*batchv1.CronJob{cj}; len(next) > 0 && len(from) < mostFollowed; next = next[1:] {
		for _, name := range leads(next[0]) {
			if name == cj.Name {
				return pathOf(cj.Name, next[0].Name, from), nil
			}
			if _, found := from[name]; found {
				continue
			}
			from[name] = next[0].Name
			found, err := read(name)
			if err != nil {
				return nil, err
			}
			if found != nil {
				next = append(next, found)
			}
		}
	}
	return nil, nil
}

// pathOf is the cycle of a CronJob that the last one of it depends on.
func pathOf(name, last string, from map[string]string) []string {
	path := []string{name}
	for ; last != name; last = from[last] {
		path = append(path, last)
	}
	path = append(path, name)
	slices.Reverse(path)
	return path
}

// tellDependencies says in a condition what a CronJob depends on that does not exist, and that it depends on itself.
func tellDependencies(cj *batchv1.CronJob, f facts) {
	var missing, messages []string
	for _, d := range cj.Spec.DependsOn {
		if key := dependencyOf(d); f.dependencies[key] == nil {
			missing = append(missing, fmt.Sprintf("%s %q", key.kind, key.name))
		}
	}
	reason := batchv1.ReasonDependencyCycle
	switch len(missing) {
	case 0:
	case 1:
		reason = platformv1.ReasonReferenceNotFound
		messages = append(messages, fmt.Sprintf("spec.dependsOn names %s, which does not exist and so has not succeeded: "+
			"create it, or take it out", missing[0]))
	default:
		reason = platformv1.ReasonReferenceNotFound
		messages = append(messages, fmt.Sprintf("spec.dependsOn names %s, which do not exist and so have not succeeded: "+
			"create them, or take them out", strings.Join(missing, ", ")))
	}
	if len(f.cycle) > 0 {
		messages = append(messages, fmt.Sprintf("CronJobs depend on each other in a cycle, %s, and each waits for a success "+
			"of the others: take one of these dependencies out", strings.Join(f.cycle, " depends on ")))
	}
	if len(messages) == 0 {
		conditions.Remove(cj, batchv1.DependencyInvalidCondition)
		return
	}
	conditions.Set(cj, metav1.Condition{Type: batchv1.DependencyInvalidCondition, Status: metav1.ConditionTrue,
		Reason: reason, Message: strings.Join(messages, "; ")})
}

// invalidDependency is the message of that condition; empty for none.
func invalidDependency(cj *batchv1.CronJob) string {
	if c := conditions.Get(cj, batchv1.DependencyInvalidCondition); c != nil {
		return c.Message
	}
	return ""
}
