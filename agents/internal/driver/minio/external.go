// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"context"
	"errors"
	"net/http"

	miniogo "github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// External is a storage that speaks S3 and is not in the pod.
type External struct {
	// Settings say where it is: those of plan.ProtocolS3.
	Settings map[string]string
	// Account, Key and CA are the names of the account, its key, and the authority of the storage's certificate as PEM:
	// those of the image where CA is nil. They are looked up at each call, since they can change.
	Account, Key, CA *plan.SecretRef
	Secret           configfile.Lookup
}

// NewExternal returns a driver that keeps the buckets of a storage.
func NewExternal(external External) *Driver {
	return &Driver{called: "the storage", open: external.open, keepers: map[string]keeper{KindBucket: buckets{}}}
}

// Check asks the storage for something as the account. The error says in words that are the same each time why it does
// not answer, or, with ErrKeys, that it does not take the keys.
func (e External) Check(ctx context.Context) error {
	options, err := e.options()
	if err != nil {
		return err
	}
	client, end, err := store.NewClient(options)
	if err != nil {
		return err
	}
	defer end()
	_, err = client.ListBuckets(ctx)
	switch {
	case err == nil, is(err, "AccessDenied"):
		// Who may not list buckets is known all the same.
		return nil
	case miniogo.ToErrorResponse(err).StatusCode == http.StatusForbidden, is(err, "AuthorizationHeaderMalformed"):
		return errors.Join(ErrKeys, options.Said(err))
	}
	return options.Said(err)
}

// ErrKeys says that a storage answers, and refuses who asks.
var ErrKeys = errors.New("the storage answers, and rejects the account or its key: correct them in their Secret, " +
	"or the region")

func (e External) open() (*session, error) {
	options, err := e.options()
	if err != nil {
		return nil, err
	}
	client, end, err := store.NewClient(options)
	if err != nil {
		return nil, err
	}
	return &session{region: options.Region, s3: client, close: end}, nil
}

func (e External) options() (store.S3Options, error) {
	texts, err := driver.Texts(e.Secret, e.Account, e.Key, e.CA)
	if err != nil {
		return store.S3Options{}, err
	}
	addressing := store.Addressing(e.Settings[plan.SettingAddressing])
	if addressing == plan.AddressingVirtualHost {
		addressing = store.AddressingVirtual
	}
	return store.S3Options{
		Endpoint: e.Settings[plan.SettingEndpoint], Region: e.Settings[plan.SettingRegion], Addressing: addressing,
		AccessKey: texts[e.Account], SecretKey: texts[e.Key], CA: []byte(texts[e.CA]), Bound: driver.Bound,
	}, nil
}
