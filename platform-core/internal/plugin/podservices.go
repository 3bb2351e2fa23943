// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"regexp"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// errNoExternal refuses a text that asks for an address which no pod has.
var errNoExternal = errors.New("pod.external is known only where a user asks for it: have the component declare " +
	"podServices, and give " +
	"what uses pod.external \"when: component.external\"")

// partial fills in what a text says of more than one pod.
func partial(t *placeholder.Template, v placeholder.Values) (any, error) {
	if t.UsesExternal() && !v.Component.External {
		return nil, errNoExternal
	}
	return t.Partial(v)
}

// checkPodServices: they lead to a port for clients, and each has the name of its pod, which no other Service may have.
// Without them no text can use what they give.
func (l *loader) checkPodServices(at document.Path, c *schema.Component) {
	path := at.With("podServices")
	if c.PodServices == nil {
		for _, text := range l.components.tree.below(at) {
			if text.UsesExternal() {
				l.wrong(text.path, "uses pod.external, and the component declares no podServices: declare them, or "+
					"take it out")
			}
		}
		return
	}
	port := c.PodServices.Port
	l.oneOf(path.With("port"), port, "port", portNames(c))
	if access := c.AccessOf(port); access != "" && access != schema.PortClient {
		l.wrong(path.With("port"), "names the port %q, whose access is %s: clients need one with access Client", port,
			access)
	}
	ofPod := regexp.MustCompile("^" + regexp.QuoteMeta(c.Name) + "-[a-z0-9-]+-[0-9]+$")
	for i := range l.components.Components.Components {
		for j, s := range l.components.Components.Components[i].Services {
			if ofPod.MatchString(s.Name) {
				l.wrong(componentPath(i, "services").Index(j),
					"has the name %q, which the Service of a pod of component %q may have: name it otherwise", s.Name,
					c.Name)
			}
		}
	}
}
