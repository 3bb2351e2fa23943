// SPDX-License-Identifier: Apache-2.0

// Package protocol has the driver for each protocol that plans can name.
package protocol

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/driver/minio"
	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysqlrouter"
	"github.com/zeroinfra/agents/internal/driver/nginx"
	"github.com/zeroinfra/agents/internal/driver/pgbouncer"
	"github.com/zeroinfra/agents/internal/driver/postgres"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
	"github.com/zeroinfra/agents/internal/driver/redis"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// ErrNone says that there is no driver for what a plan asks.
var ErrNone = errors.New("this agent has no driver for it")

// Drivers opens drivers of one pod. It is safe for concurrent use.
type Drivers struct {
	certificates string
	secret       configfile.Lookup
	verified     postgres.Verified
	verifiedMy   mysql.Verified
}

// New returns the drivers of a pod that log in with the secrets. The folder has the middleware's certificate, where it
// speaks TLS.
func New(certificates string, secret configfile.Lookup) *Drivers {
	return &Drivers{certificates: certificates, secret: secret}
}

// Open returns the driver that a plan declares, which may be nil.
func (d *Drivers) Open(declared *plan.Driver) (driver.Driver, error) {
	if declared == nil {
		return nil, fmt.Errorf("%w: the plan declares none", ErrNone)
	}
	ca := ""
	if declared.TLS {
		ca = filepath.Join(d.certificates, plan.CAFile)
	}
	password := func() (string, error) {
		if declared.Password == nil {
			return "", nil
		}
		return d.secret(*declared.Password)
	}
	target := link.Target{Address: declared.Address, CAFile: ca, Username: declared.Username, Password: password}
	switch declared.Protocol {
	case plan.ProtocolKafka:
		options := kafka.Options{Address: declared.Address, CAFile: ca, Username: declared.Username, Password: password}
		if declared.TLS {
			options.CertificateFile = filepath.Join(d.certificates, plan.CertificateFile)
			options.KeyFile = filepath.Join(d.certificates, plan.KeyFile)
		}
		return kafka.New(options), nil
	case plan.ProtocolKafkaExternal:
		return kafka.NewExternal(kafka.External{Settings: declared.Settings, Account: declared.Account,
			Key: declared.Password,
			CA:  declared.CA, Secret: d.secret}), nil
	case plan.ProtocolMinIO:
		return minio.New(minio.Options{Address: declared.Address, CAFile: ca, Username: declared.Username, Password: password,
			TargetCA: func() (string, error) {
				if declared.CA == nil {
					return "", nil
				}
				return d.secret(*declared.CA)
			}}), nil
	case plan.ProtocolS3:
		return minio.NewExternal(minio.External{Settings: declared.Settings, Account: declared.Account,
			Key: declared.Password, CA: declared.CA, Secret: d.secret}), nil
	case plan.ProtocolMySQL:
		return mysql.New(mysql.Options{Address: declared.Address, CAFile: ca, Username: declared.Username, Password: password,
			Verified: &d.verifiedMy}), nil
	case plan.ProtocolMySQLRouter:
		return mysqlrouter.New(mysqlrouter.Options{Address: declared.Address, Username: declared.Username,
			Password: password}), nil
	case plan.ProtocolRedis:
		return redis.New(redis.Options{Address: declared.Address, CAFile: ca, Username: declared.Username, Password: password,
			UsersFile: declared.EntitiesFile}), nil
	case plan.ProtocolPostgreSQL:
		return postgres.New(postgres.Options{Target: target, Verified: &d.verified}), nil
	case plan.ProtocolPgBouncer:
		return pgbouncer.New(target), nil
	case plan.ProtocolNginx:
		return nginx.New(declared.Address), nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNone, declared.Protocol)
}

// Query asks the driver that a plan declares.
func (d *Drivers) Query(ctx context.Context, declared *plan.Driver, statement driver.Statement) (driver.Table, error) {
	opened, err := d.Open(declared)
	if err != nil {
		return driver.Table{}, err
	}
	querier, ok := opened.(driver.Querier)
	if !ok {
		return driver.Table{}, fmt.Errorf("the driver for %s cannot be asked", declared.Protocol)
	}
	return querier.Query(ctx, statement)
}
