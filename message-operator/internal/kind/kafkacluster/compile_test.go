// SPDX-License-Identifier: Apache-2.0

package kafkacluster

import (
	"errors"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in messagev1.KafkaCluster) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Application, nil
	})
}

func TestEntities(t *testing.T) {
	testkit.Golden(t, "testdata/entities", func(in messagev1.KafkaCluster) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Entities, nil
	})
}

// Compile is called again and again: it may not change what it was given, nor what it returned before.
func TestCompileChangesNoProfile(t *testing.T) {
	in := &messagev1.KafkaCluster{}
	in.Spec.Profile = messagev1.ProfileDurability
	in.Spec.Parameters = platformv1.Parameters{"min.insync.replicas": "1"}
	if _, err := (Kind{}).Compile(in); err != nil {
		t.Fatal(err)
	}
	in.Spec.Parameters = nil
	out, err := Kind{}.Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Application.Spec.Components[0].Parameters["min.insync.replicas"]; got != "2" {
		t.Errorf("min.insync.replicas of the profile is %q after another object set it, want 2", got)
	}
}

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*messagev1.KafkaCluster](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"4.3"}`, Compiled: `"version":"4.3"`},
		"pluginVersion": {Spec: `{"pluginVersion":"1.2.0"}`, Compiled: `"pluginVersion":"1.2.0"`},
		"components[kafka].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[keeper].resources": {
			Spec:     `{"bootstrap":{"servers":["a:9093"]},"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[kafka].storage.size": {Spec: `{"storage":{"size":"70Gi"}}`, Compiled: `"storage":{"size":"70Gi"}`},
		"components[kafka].parameters": {Spec: `{"parameters":{"num.io.threads":"20"}}`,
			Compiled: `"num.io.threads":"20"`},
		"components[kafka].replicas": {Spec: `{"replicas":5}`, Compiled: `"name":"kafka","replicas":5`},
		"components[controller].replicas": {Spec: `{"controllers":{"replicas":5}}`,
			Compiled: `"name":"controller","replicas":5`},
		"components[controller].resources": {Spec: `{"controllers":{"resources":{"limits":{"memory":"1Gi"}}}}`,
			Compiled: `"resources":{"limits":{"memory":"1Gi"}}`},
		"components[controller].storage.size": {Spec: `{"controllers":{"storage":{"size":"5Gi"}}}`,
			Compiled: `"storage":{"size":"5Gi"}`},
		"components[zookeeper].resources": {Spec: `{"zookeeper":{"resources":{"limits":{"memory":"1Gi"}}}}`,
			Compiled: `"resources":{"limits":{"memory":"1Gi"}}`},
		"components[zookeeper].storage.size": {Spec: `{"zookeeper":{"storage":{"size":"5Gi"}}}`,
			Compiled: `"storage":{"size":"5Gi"}`},
	})
}

func TestCompileRefusesAVersionThatCannotReadTheMetadata(t *testing.T) {
	for _, c := range []struct{ version, metadata, want string }{
		{"4.3", "", ""}, {"4.3", "4.3", ""}, {"4.4", "4.3", ""}, {"4.10", "4.9", ""},
		{"4.3", "4.4", "version 4.3 is below status.metadataVersion 4.4"},
		{"3.9", "4.3", "Nothing is changed: set version to 4.3 or later"},
	} {
		in := &messagev1.KafkaCluster{Status: messagev1.KafkaClusterStatus{MetadataVersion: c.metadata}}
		in.Spec.Version = c.version
		_, err := Kind{}.Compile(in)
		var refusal *typed.Refusal
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refusal) ||
			refusal.Reason != platformv1.ReasonVersionNotSupported || !strings.Contains(refusal.Message, c.want)) {
			t.Errorf("version %s with the metadata of %s: %v", c.version, c.metadata, err)
		}
	}
}
