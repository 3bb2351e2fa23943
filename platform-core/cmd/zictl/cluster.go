// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// cluster says which one a command is for, in the flags of kubectl.
type cluster struct {
	kubeconfig, context, namespace string
}

func (c *cluster) bind(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig (default: the current one)")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace of objects that name none (default: that of the context)")
}

// connect returns a client, and the namespace of objects that name none. Warnings of the API server are written to
// stderr.
func (c *cluster) connect(stderr io.Writer) (client.Client, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("cannot find the cluster: %w", err)
	}
	config.WarningHandler = rest.NewWarningWriter(stderr, rest.WarningWriterOptions{Deduplicate: true})
	namespace := c.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", fmt.Errorf("cannot find the namespace: %w", err)
		}
	}
	scheme := runtime.NewScheme()
	if err := platformv1.AddToScheme(scheme); err != nil {
		return nil, "", err
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("cannot reach the cluster: %w", err)
	}
	return made, namespace, nil
}
