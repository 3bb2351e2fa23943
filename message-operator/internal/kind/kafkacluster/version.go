// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/version"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// featuresCondition is that of the plugin which tells of metadata.version.
const featuresCondition = "FeaturesUpgraded"

// metadataSentence is how its message begins.
var metadataSentence = regexp.MustCompile(`^metadata\.version is that of Kafka ([0-9]{1,4}\.[0-9]{1,4})\b`)

// metadataVersionOf is the release line of metadata.version; empty while no broker tells it.
func metadataVersionOf(app *platformv1.Application) string {
	told := conditions.Get(app, featuresCondition)
	if told == nil {
		return ""
	}
	if found := metadataSentence.FindStringSubmatch(told.Message); found != nil {
		return found[1]
	}
	return ""
}

// checkVersion refuses a version that cannot read what the cluster writes: its nodes would not start. The API server
// refuses it as well, but not where metadata.version was raised after the version was set back.
func checkVersion(k *messagev1.KafkaCluster) error {
	wanted, err := version.ParseGeneric(k.Spec.Version)
	metadata, unknown := version.ParseGeneric(k.Status.MetadataVersion)
	if err != nil || unknown != nil || !wanted.LessThan(metadata) {
		return nil
	}
	return typed.Refuse(platformv1.ReasonVersionNotSupported, fmt.Sprintf(
		"version %s is below status.metadataVersion %s: an earlier Kafka cannot read what the cluster writes since "+
			"UpgradeFeatures has raised metadata.version, which is not lowered again. Nothing is changed: set version to "+
			"%[2]s or later", k.Spec.Version, k.Status.MetadataVersion))
}
