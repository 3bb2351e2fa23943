// SPDX-License-Identifier: Apache-2.0

// Package podtext puts what is true of one pod into the texts of a plan that many pods share.
//
//	${pod.name}     the pod's name
//	${pod.ordinal}  the number after the name's last dash
//	${pod.fqdn}     the name, a dot and the plan's domain
//	${pod.external.host}, ${pod.external.port}
//	                where clients outside of the cluster reach the pod, for a pod that has a Service of its own
//	${pod.zone}     the zone of the pod's node; empty for a node that is in none
//	${primary.fqdn} the same of the primary, in the arguments of a follower only
//	$${             a literal ${
//
// Any other ${ is an error; a $ elsewhere is just a dollar sign. There is no nesting, and what was put in is not read
// again.
//
// The package imports the standard library only, so that both sides can use it.
package podtext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	open    = "${"
	escaped = "$${"
	// ZoneReference stands for the zone of the pod's node.
	ZoneReference = "${pod.zone}"
	// maxQuoted bounds what an error repeats of a text.
	maxQuoted = 40
)

// ErrZoneUnknown is of a text that asks for the zone before the operator has told the pod. It does so once the pod is
// on a node, so that asking again soon helps.
var ErrZoneUnknown = errors.New("the zone of the pod's node is not known yet: the operator writes it onto the pod")

// Pod is what texts can ask for.
type Pod struct {
	// Name of the pod; empty when it is not known.
	Name string
	// Ordinal of the pod in its set; negative when the name has none.
	Ordinal int
	// FQDN is the pod's own DNS name; empty when it has none.
	FQDN string
	// External is the address that clients outside of the cluster have for the pod; the zero value when it has none.
	External External
	// Zone of the pod's node, empty for a node that is in none; nil while it is not known.
	Zone *string
	// Primary is the DNS name of the primary that the pod follows; empty when it follows none.
	Primary string
}

// External is an address of one pod.
type External struct {
	// Host is a DNS name or an IP address.
	Host string
	// Port of the host.
	Port int32
}

// PodOf tells the ordinal and the DNS name from the pod's name and the domain of its plan, which may both be empty.
func PodOf(name, domain string) Pod {
	pod := Pod{Name: name, Ordinal: ordinal(name)}
	if name != "" && domain != "" {
		pod.FQDN = name + "." + domain
	}
	return pod
}

func ordinal(name string) int {
	digits := name[strings.LastIndexByte(name, '-')+1:]
	n, err := strconv.Atoi(digits)
	// "-+1" and "-01" are no names that the engine gives.
	if err != nil || len(digits) == len(name) || strconv.Itoa(n) != digits {
		return -1
	}
	return n
}

// Expand puts in what the text asks for. What the pod does not have is an error where the text asks for it, and only
// there.
func Expand(text string, pod Pod) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(text, open)
		if at < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			b.WriteString(text[:at-1] + open)
			text = text[at+len(open):]
			continue
		}
		b.WriteString(text[:at])
		text = text[at:]
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return "", fmt.Errorf("%q has no closing brace; write %s for a literal %s", shorten(text), escaped, open)
		}
		value, err := pod.value(text[:end+1])
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[end+1:]
	}
}

// value is what one reference stands for.
func (p Pod) value(reference string) (string, error) {
	switch reference {
	case "${pod.name}":
		if p.Name == "" {
			return "", fmt.Errorf("%s is not known here; is POD_NAME set?", reference)
		}
		return p.Name, nil
	case "${pod.ordinal}":
		if p.Ordinal < 0 {
			return "", fmt.Errorf("%s is not known: the pod's name %q does not end in a dash and a number", reference, p.Name)
		}
		return strconv.Itoa(p.Ordinal), nil
	case "${pod.fqdn}":
		if p.FQDN == "" {
			return "", fmt.Errorf("%s is not known: the plan has no domain, or the pod no name", reference)
		}
		return p.FQDN, nil
	case "${pod.external.host}", "${pod.external.port}":
		return p.External.value(reference)
	case ZoneReference:
		if p.Zone == nil {
			return "", ErrZoneUnknown
		}
		return *p.Zone, nil
	case "${primary.fqdn}":
		if p.Primary != "" {
			return p.Primary, nil
		}
	}
	return "", fmt.Errorf("%q is unknown; known are ${pod.name}, ${pod.ordinal}, ${pod.fqdn}, ${pod.zone}, "+
		"${pod.external.host} and ${pod.external.port}; write %s for a literal %s",
		shorten(reference), escaped, open)
}

func (e External) value(reference string) (string, error) {
	switch {
	case e.Port == 0:
		return "", fmt.Errorf("%s is not known: the pod has no Service of its own for clients outside of the "+
			"cluster; give what asks for it \"when: component.external\"", reference)
	case reference == "${pod.external.port}":
		return strconv.Itoa(int(e.Port)), nil
	case e.Host == "":
		return "", fmt.Errorf("%s is not known: the plan leaves it to the pod's node, whose address is not in the "+
			"environment", reference)
	}
	return e.Host, nil
}

// Escape returns a text that Expand turns into the given one, whatever that is. Escape a literal as one piece, and put
// no reference right behind one that ends in $: the two would read as an escape.
func Escape(text string) string { return strings.ReplaceAll(text, open, escaped) }

// Sample is a pod that has everything.
func Sample() Pod {
	pod := PodOf("sample-component-main-0", "sample.example")
	pod.External, pod.Zone = External{Host: "sample.example", Port: 1}, new("zone")
	return pod
}

// Check says whether Expand knows all that the text asks for, given a pod that has everything.
func Check(text string) error {
	_, err := Expand(text, Sample())
	return err
}

func shorten(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "..."
}
