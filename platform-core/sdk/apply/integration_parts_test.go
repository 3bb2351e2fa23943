// SPDX-License-Identifier: Apache-2.0

//go:build integration

package apply_test

import (
	"bytes"
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
)

// selected reads as a label-selected cache does: what lacks the label is not there.
type selected struct{ client.Client }

func (s selected) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := s.Client.Get(ctx, key, obj, options...); err != nil {
		return err
	}
	if obj.GetLabels()[platformv1.DomainLabel] == "" {
		return apierrors.NewNotFound(corev1.Resource("objects"), key.Name)
	}
	return nil
}

// frozen reads as a cache that is behind: it shows one image for ever.
type frozen struct {
	client.Client
	image *corev1.Service
}

func (f frozen) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	f.image.DeepCopyInto(obj.(*corev1.Service))
	return nil
}

// blind reads as a cache that has not seen anything yet.
type blind struct{ client.Client }

func (blind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("objects"), key.Name)
}

// behind returns an Applier whose cache shows nothing: it first sees its object when it runs into it.
func (b *bench) behind() *apply.Applier {
	b.Helper()
	c, writes, err := env.CountingClient()
	if err != nil {
		b.Fatal(err)
	}
	b.writes = writes
	return apply.NewWithReader(blind{c}, c, "test")
}

// hidden returns an Applier over a label-selected reader; its writes are counted like those of the bench.
func (b *bench) hidden() *apply.Applier {
	b.Helper()
	c, writes, err := env.CountingClient()
	if err != nil {
		b.Fatal(err)
	}
	b.writes = writes
	return apply.NewWithReader(selected{c}, c, "test")
}

func toJSON(b *bench, value any) []byte {
	b.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func equalJSON(b *bench, x, y any) bool {
	b.Helper()
	return bytes.Equal(toJSON(b, x), toJSON(b, y))
}
