// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/test/e2e/framework"
)

// handedOn is a Workflow whose second task checks a file of 3 MiB that its first one made, after a third one.
const handedOn = `
artifacts: {repositoryRef: {name: files}, maxSize: 4Mi}
tasks:
  - name: make
    script:
      ` + shellLines + `
      source: |
        seq 500000 | head -c 3145728 >/out/report; sha256sum </out/report >/out/sum
        if test -e /zeroinfra; then exit 1; fi
    artifacts: [{name: report, path: /out/report}, {name: sum, path: /out/sum}]
  - name: release
    wait: {apiVersion: v1, kind: ConfigMap, name: GATE, until: 'true'}
  - name: use
    dependsOn: [{name: make}, {name: release}]
    script:
      ` + shellLines + `
      source: test "$(sha256sum </in/report)" = "$(cat /in/sum)"
    inputs: [{from: make.report, path: /in/report}, {from: make.sum, path: /in/sum}]
`

// shellLines is shell as lines of a map.
const shellLines = "image: zeroinfra/redis:8.0\n      runAsUser: 999"

// TestWorkflowArtifacts has files go from task to task by way of a real bucket, and go with their Workflow. A file that
// somebody changed is not read.
func TestWorkflowArtifacts(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "artifacts"))
	good := p.workflow("good", strings.Replace(handedOn, "GATE", "open", 1))
	p.Eventually(framework.ReadyTimeout, "the first task waits for the repository", func() error {
		if err := p.Get(good.Name, good); err != nil {
			return err
		}
		if !strings.Contains(good.Status.Message, `there is no BackupRepository "files"`) {
			return fmt.Errorf("it says %q", good.Status.Message)
		}
		return nil
	})
	p.Create(configMapOf("open", nil))
	p.EnsureStorageOperator()
	storage := p.CreateObjectStorageRepositoryWithIssuer(p.CreateClusterIssuer(), "files")
	s3 := storage.RootClient(storage.Pod("main", 0))
	p.ended(good, batchv1.WorkflowSucceeded)
	kept := p.task(good, "make").Artifacts
	if len(kept) != 2 || kept[0].Name != "report" || kept[0].Size != 3<<20 || kept[1].Name != "sum" {
		p.Fatalf("the record is %+v", kept)
	}
	for _, one := range kept {
		object := artifactFolder(p, good) + "/" + strings.TrimPrefix(one.Digest, "sha256:")
		if !strings.HasSuffix(one.Location, object) {
			p.Errorf("it is said to be at %s, want %s", one.Location, object)
		}
		content, err := framework.GetObject(p.Ctx, s3, framework.BackupBucket, object)
		if err != nil || int64(len(content)) != one.Size {
			p.Errorf("%s has %d bytes, want %d: %v", object, len(content), one.Size, err)
		}
	}
	p.noSecret(good.Status.Operation)

	bad := p.workflow("bad", strings.Replace(handedOn, "GATE", "later", 1))
	p.Eventually(framework.ReadyTimeout, "the artifact is kept", func() error {
		if err := p.Get(bad.Name, bad); err != nil {
			return err
		}
		for _, task := range bad.Status.Tasks {
			if len(task.Artifacts) > 0 {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", bad.Status)
	})
	changed := artifactFolder(p, bad) + "/" + strings.TrimPrefix(p.task(bad, "make").Artifacts[0].Digest, "sha256:")
	if err := framework.PutObject(p.Ctx, s3, framework.BackupBucket, changed, "something else"); err != nil {
		p.Fatal(err)
	}
	p.Create(configMapOf("later", nil))
	p.ended(bad, batchv1.WorkflowFailed)
	if message := p.task(bad, "use").Message; !strings.Contains(message, `artifact "make.report"`) {
		p.Errorf("the task says %q", message)
	}

	p.Delete(good)
	p.Delete(bad)
	p.Eventually(framework.ReadyTimeout, "the artifacts are gone with their Workflows", func() error {
		for object := range s3.ListObjects(p.Ctx, framework.BackupBucket, minio.ListObjectsOptions{Recursive: true,
			Prefix: path.Join(framework.BackupPrefix, mover.ArtifactsFolder) + "/"}) {
			return fmt.Errorf("there is %s: %w", object.Key, object.Err)
		}
		return nil
	})
}

// artifactFolder is the folder in the bucket of a Workflow that was not tried again.
func artifactFolder(p *place, wf *batchv1.Workflow) string {
	return path.Join(framework.BackupPrefix, mover.ArtifactsFolderFor(p.Name, string(wf.Status.OperationUID)))
}
