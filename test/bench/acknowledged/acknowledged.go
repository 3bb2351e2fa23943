// SPDX-License-Identifier: Apache-2.0

// Package acknowledged writes to a Redis Cluster so that it is known what a replica has. Every trial is judged by what
// is acknowledged here.
package acknowledged

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNotSent is of a write that never was.
var errNotSent = errors.New("the client gave up before it wrote")

// Set writes a key with itself as the value and waits on the same connection until a replica has it, for so long at
// most. Without an error one has.
//
// The connection is that of a WATCH. ClusterClient.Watch (go-redis 9.23) returns nil, too, when the last of its
// attempts met a MOVED or ASK before it came to the function that writes: a server that was down for all attempts
// before, and is back as a replica by the last, gives that.
func Set(ctx context.Context, client *redis.ClusterClient, key string, within time.Duration) error {
	had := false
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.Set(ctx, key, key, 0).Err(); err != nil {
			return err
		}
		replicas, err := tx.Wait(ctx, 1, within).Result()
		if err == nil && replicas < 1 {
			err = errors.New("no replica has it")
		}
		had = err == nil
		return err
	}, key)
	if err == nil && !had {
		return errNotSent
	}
	return err
}
