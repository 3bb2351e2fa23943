// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Reference parses where an image goes: registry is HOST or HOST/prefix, reference is repository:tag.
// Options are those of package name, such as name.Insecure for plain HTTP.
func Reference(registry, reference string, options ...name.Option) (name.Reference, error) {
	ref, err := name.ParseReference(registry+"/"+reference, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, fmt.Errorf("cannot use registry %q: %w", registry, err)
	}
	return ref, nil
}

// Push sends an image to a registry, with the credentials that `docker login` keeps.
func Push(ctx context.Context, ref name.Reference, image v1.Image) error {
	err := remote.Write(ref, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("cannot push %q: %w", ref, err)
	}
	return nil
}
