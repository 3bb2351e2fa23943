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
