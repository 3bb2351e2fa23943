// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// External renders the Services in front of one pod each.
type External struct{ *context }

// external is what a user asks for, with the defaults filled in.
func external(wanted *platformv1.ExternalAccess) *platformv1.ExternalAccess {
	if wanted == nil {
		return nil
	}
	filled := wanted.DeepCopy()
	filled.Type = cmp.Or(filled.Type, corev1.ServiceTypeClusterIP)
	for i := range filled.NodePorts {
		filled.NodePorts[i].Set = cmp.Or(filled.NodePorts[i].Set, platformv1.DefaultSet)
	}
	return filled
}

// checkExternal says why a component cannot have the external access that is asked for.
func checkExternal(spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	wanted := spec.External
	if wanted == nil {
		return nil
	}
	wrong := func(format string, args ...any) *Refusal {
		return refuse(platformv1.ReasonInvalidSpec, "component %q has external%s", spec.Component,
			fmt.Sprintf(format, args...))
	}
	if declared.PodServices == nil {
		return wrong(" set: its plugin has no Services of pods, take it out")
	}
	ports := map[int32]bool{}
	for _, p := range wanted.NodePorts {
		if ports[p.NodePort] {
			return wrong(".nodePorts with %d for two pods: each needs another one", p.NodePort)
		}
		ports[p.NodePort] = true
	}
	if wanted.Host == "" {
		return nil
	}
	sample := replacer("a-b-main-0", platformv1.DefaultSet, 0).Replace(wanted.Host)
	if net.ParseIP(sample) == nil && len(validation.IsDNS1123Subdomain(sample)) > 0 {
		return wrong(".host %q: it must be a DNS name or an IP address, in which {pod}, {set} and {ordinal} stand "+
			"for those of the pod", wanted.Host)
	}
	oneForEach := strings.Contains(wanted.Host, "{pod}") ||
		strings.Contains(wanted.Host, "{ordinal}") && (declared.Single() || strings.Contains(wanted.Host, "{set}")) ||
		declared.Single() && spec.Replicas <= 1
	if wanted.Type != corev1.ServiceTypeNodePort && !oneForEach {
		return wrong(".host %q, which is the same for several pods, and their ports are the same as well: have "+
			"{pod}, or {set} and {ordinal}, in it", wanted.Host)
	}
	return nil
}

// checkExternalSets refuses node ports of sets that are not there.
func checkExternalSets(spec *platformv1.ComponentSpec) *Refusal {
	if spec.External == nil {
		return nil
	}
	for _, p := range spec.External.NodePorts {
		if !slices.ContainsFunc(spec.Sets, func(s platformv1.ComponentSet) bool { return s.Name == p.Set }) {
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has external.nodePorts for the set %q, which is not there: name one of its sets",
				spec.Component, p.Set)
		}
	}
	return nil
}

// external is nil for a component whose pods have no Services of their own.
func (c *context) external() *External {
	if c.spec.External == nil {
		return nil
	}
	return &External{c}
}

// replacer puts what is true of a pod into a text of the user.
func replacer(pod, set string, ordinal int32) *strings.Replacer {
	return strings.NewReplacer("{pod}", pod, "{set}", set, "{ordinal}", strconv.Itoa(int(ordinal)))
}

// service is that of one pod. It leads there also while the pod is not ready: there is no other pod that clients could
// be led to.
func (e *External) service(set *WorkloadSetOutput, ordinal int32) *corev1.Service {
	name := platformv1.PodNameFor(set.Name, ordinal)
	selector := e.selector("")
	selector[platformv1.SetLabel], selector[platformv1.OrdinalLabel] = set.Spec.Set, strconv.Itoa(int(ordinal))
	ports := slices.DeleteFunc(slices.Clone(e.declared.Ports),
		func(p schema.Port) bool { return p.Name != e.declared.PodServices.Port })
	service := e.context.service(name, selector, ports)
	maps.Copy(service.Labels, selector)
	expose(service, &e.spec.External.ServiceSettings)
	for key, value := range service.Annotations {
		service.Annotations[key] = replacer(name, set.Spec.Set, ordinal).Replace(value)
	}
	service.Spec.PublishNotReadyAddresses = true
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		service.Spec.Ports[0].NodePort = e.spec.External.NodePortOf(set.Spec.Set, ordinal)
	}
	return service
}

// address is that of the pod behind a Service; false while it is not known. live is the Service as it is, nil for one
// that is not there.
func (e *External) address(service, live *corev1.Service) (plan.ExternalAddress, bool) {
	wanted := e.spec.External
	if live == nil || live.Spec.Type != wanted.Type {
		live = &corev1.Service{}
	}
	port := service.Spec.Ports[0]
	address := plan.ExternalAddress{Port: port.Port}
	switch wanted.Type {
	case corev1.ServiceTypeNodePort:
		address.Port = port.NodePort
		i := slices.IndexFunc(live.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port.Port })
		if address.Port == 0 && i >= 0 {
			address.Port = live.Spec.Ports[i].NodePort
		}
	case corev1.ServiceTypeLoadBalancer:
		if ingress := live.Status.LoadBalancer.Ingress; len(ingress) > 0 {
			address.Host = cmp.Or(ingress[0].Hostname, ingress[0].IP)
		}
	default:
		address.Host = service.Name + "." + service.Namespace + ".svc." + e.settings.ClusterDomain
	}
	if wanted.Host != "" {
		ordinal, _ := strconv.ParseInt(service.Spec.Selector[platformv1.OrdinalLabel], 10, 32)
		address.Host = replacer(service.Name, service.Spec.Selector[platformv1.SetLabel],
			int32(ordinal)).Replace(wanted.Host)
	}
	return address, address.Port != 0 && (address.Host != "" || wanted.OnNode())
}

// WithAddresses returns the output with the Services in front of one pod each, and the addresses that clients outside
// of the cluster have for the pods: in the plans of the sets, and in the certificate. live are the Services by name as
// they are.
func (o *ComponentOutput) WithAddresses(live map[string]*corev1.Service) (*ComponentOutput, error) {
	if o.External == nil {
		return o, nil
	}
	with := *o
	with.Services, with.WorkloadSets = slices.Clone(o.Services), slices.Clone(o.WorkloadSets)
	var hosts []string
	for i := range with.WorkloadSets {
		set := &with.WorkloadSets[i]
		p, err := decodePlan(set.Name, set.Spec.Plan.Raw)
		if err != nil {
			return nil, err
		}
		p.External, set.Unaddressed = &plan.External{}, nil
		for _, ordinal := range set.Spec.Ordinals() {
			service := o.External.service(set, ordinal)
			with.Services = append(with.Services, service)
			address, known := o.External.address(service, live[service.Name])
			if !known {
				set.Unaddressed = append(set.Unaddressed, service.Name)
				continue
			}
			address.Digest, address.RestartDigest = addressDigests(&p, address)
			if p.External.Pods == nil {
				p.External.Pods = map[string]plan.ExternalAddress{}
			}
			p.External.Pods[service.Name] = address
			hosts = append(hosts, address.Host)
		}
		if set.Spec.Plan.Raw, err = canonical(p); err != nil {
			return nil, err
		}
	}
	with.Certificate = certified(o.Certificate, hosts)
	return &with, nil
}

// AwaitsAddress says what a pod waits for that has no address for clients outside of the cluster, in a sentence.
func AwaitsAddress(pod string) string {
	return fmt.Sprintf("pod %s has no address for clients outside of the cluster: Service %s has yet to get one; "+
		"see kubectl describe service %s", pod, pod, pod)
}

// addressDigests are those of a plan in a pod with an address: the plan's own where nothing that runs depends on it.
func addressDigests(p *plan.Plan, address plan.ExternalAddress) (digest, restart string) {
	of := func(digest string, files []plan.File) string {
		if !bytes.Contains(digested([]any{p.Process, files}), []byte("${pod.external.")) {
			return digest
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", digest, address.Host, address.Port))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return of(p.Digest, p.Files), of(p.RestartDigest, fixedFiles(p))
}

// certified adds names and addresses to a certificate.
func certified(certificate *unstructured.Unstructured, hosts []string) *unstructured.Unstructured {
	if certificate == nil {
		return nil
	}
	with := certificate.DeepCopy()
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		field := "dnsNames"
		switch {
		case host == "":
			continue
		case net.ParseIP(host) != nil:
			field = "ipAddresses"
		}
		list, _, _ := unstructured.NestedSlice(with.Object, "spec", field)
		if !slices.Contains(list, any(host)) {
			// The path is a list that this package made.
			_ = unstructured.SetNestedSlice(with.Object, append(list, host), "spec", field)
		}
	}
	return with
}
