// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/internal/engine"
)

// webhookSettings are the flags of the validating webhook.
type webhookSettings struct {
	// configuration names the ValidatingWebhookConfiguration; there is no webhook when it is empty.
	configuration string
	// host that the API server calls; empty for the Service of the configuration's name.
	host    string
	address string
}

func (w *webhookSettings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&w.configuration, "webhook-configuration", "",
		"ValidatingWebhookConfiguration that leads to this operator, whose certificate it keeps, in a Secret of that "+
			"name, without .<namespace> at its end and with -webhook behind it (default: no webhook is served)")
	flags.StringVar(&w.host, "webhook-host", "",
		"DNS name that the API server calls the webhook by (default: <name of the Secret>.<namespace>.svc)")
	flags.StringVar(&w.address, "webhook-bind-address", ":9443", "address of the webhook")
}

// check refuses values that cannot work.
func (w *webhookSettings) check() error {
	if _, _, err := w.listen(); err != nil {
		return fmt.Errorf("cannot listen on %q: --webhook-bind-address must be an address and a port, such as :9443: %w",
			w.address, err)
	}
	if problems := validation.IsDNS1123Subdomain(w.host); w.host != "" && len(problems) > 0 {
		return fmt.Errorf("cannot be called as %q: --webhook-host must be a DNS name", w.host)
	}
	return nil
}

func (w *webhookSettings) listen() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(w.address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err == nil && number == 0 {
		err = fmt.Errorf("port %q is none", text)
	}
	return host, int(number), err
}

// admission returns how the webhook is set up; nil for none.
func (w *webhookSettings) admission(o Options, namespace string) *engine.Admission {
	if w.configuration == "" {
		return nil
	}
	// The chart ends names that are unique in the cluster with its namespace.
	name := strings.TrimSuffix(w.configuration, "."+namespace) + "-webhook"
	a := &engine.Admission{Configuration: w.configuration, Secret: name, Host: w.host, Kinds: o.Kinds, Checks: checks(o)}
	if a.Host == "" {
		a.Host = name + "." + namespace + ".svc"
	}
	a.Address, a.Port, _ = w.listen() // It was checked.
	return a
}
