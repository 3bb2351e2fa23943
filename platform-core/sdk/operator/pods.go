// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/internal/engine"
)

// podSettings are the flags for what every pod gets that the operator makes.
type podSettings struct {
	imagePullSecrets    []string
	labels, annotations map[string]string
	agentCPU, jobCPU    string
}

func (s *podSettings) bind(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.imagePullSecrets, "pod-image-pull-secrets", nil,
		"Secrets with credentials for registries, in the namespace of each instance, for all pods of instances, movers and "+
			"jobs")
	flags.StringToStringVar(&s.labels, "pod-labels", nil,
		"labels of all pods of instances, movers and jobs, such as sidecar.istio.io/inject=false")
	flags.StringToStringVar(&s.annotations, "pod-annotations", nil,
		"annotations of all pods of instances, movers and jobs, such as linkerd.io/inject=disabled")
	flags.StringVar(&s.agentCPU, "agent-cpu-limit", "",
		"limit of CPU of each container beside the one of the middleware, such as 500m (default: none)")
	flags.StringVar(&s.jobCPU, "job-cpu-limit", "",
		"limit of CPU of the containers of movers and jobs, such as 1 (default: none)")
}

// settings returns them as they are rendered, or says which flag cannot work.
func (s *podSettings) settings() (*engine.PodSettings, error) {
	pods := &engine.PodSettings{ImagePullSecrets: s.imagePullSecrets, Labels: s.labels, Annotations: s.annotations}
	for _, name := range s.imagePullSecrets {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("cannot pull images with Secret %q: --pod-image-pull-secrets takes names of Secrets, "+
				"separated by commas", name)
		}
	}
	for flag, values := range map[string]map[string]string{"labels": s.labels, "annotations": s.annotations} {
		for key, value := range values {
			problems := validation.IsQualifiedName(strings.ToLower(key))
			if flag == "labels" {
				problems = append(problems, validation.IsValidLabelValue(value)...)
			}
			prefix, _, _ := strings.Cut(key, "/")
			if strings.HasSuffix(prefix, "zeroinfra.github.com") || strings.HasPrefix(key, "app.kubernetes.io/") {
				problems = append(problems, "the operator sets it itself")
			}
			if len(problems) > 0 {
				return nil, fmt.Errorf("cannot give pods %s=%s: --pod-%s: %s", key, value, flag,
					strings.Join(problems, "; "))
			}
		}
	}
	for _, limit := range []struct {
		flag, value string
		into        *resource.Quantity
	}{{"agent-cpu-limit", s.agentCPU, &pods.AgentCPU}, {"job-cpu-limit", s.jobCPU, &pods.JobCPU}} {
		if limit.value == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(limit.value)
		if err != nil || quantity.MilliValue() <= 0 {
			return nil, fmt.Errorf("cannot limit CPU to %q: --%s takes a quantity above 0, such as 500m",
				limit.value, limit.flag)
		}
		*limit.into = quantity
	}
	return pods, nil
}
