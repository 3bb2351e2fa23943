// SPDX-License-Identifier: Apache-2.0

//go:build processes

package minio

import "context"

// Targets counts those that a bucket has, with and without a rule.
func (d *Driver) Targets(ctx context.Context, bucket string) (int, error) {
	s, err := d.open()
	if err != nil {
		return 0, err
	}
	defer s.close()
	all, err := s.admin.targets(ctx, bucket)
	return len(all), err
}

// SetPolicy gives a policy another document, as somebody does by hand.
func (d *Driver) SetPolicy(ctx context.Context, name, document string) error {
	s, err := d.open()
	if err != nil {
		return err
	}
	defer s.close()
	return s.admin.setPolicy(ctx, name, document)
}

// SetPolicies gives a user these policies, with commas between them, and no others, as somebody does by hand.
func (d *Driver) SetPolicies(ctx context.Context, user, policies string) error {
	s, err := d.open()
	if err != nil {
		return err
	}
	defer s.close()
	return s.admin.setPolicies(ctx, user, policies)
}
