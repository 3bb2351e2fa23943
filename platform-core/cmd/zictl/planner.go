// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

const (
	// lastApplied is where kubectl apply keeps what it applied last.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// answerPoll is how often the Operation is looked at.
	answerPoll = 200 * time.Millisecond
	// recordSeconds is how long the record of a plan stays when this process dies before it deletes it.
	recordSeconds = 60
	// deleteTimeout is how long the deletion of the record may take.
	deleteTimeout = 5 * time.Second
)

// planner asks one cluster.
type planner struct {
	client    client.Client
	flags     *planFlags
	namespace string
}

// readObjects splits a file into its objects. Of each it leaves what an apply is about: its name, labels, annotations
// and all that is beside metadata and status.
func readObjects(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read YAML: %w", err)
		}
		content, err := yaml.YAMLToJSONStrict(part)
		if err != nil {
			return nil, fmt.Errorf("cannot read YAML: %w", err)
		}
		if string(content) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("cannot read an object: %w", err)
		}
		if object.GetName() == "" && !(isOperation(object) && object.GetGenerateName() != "") {
			return nil, fmt.Errorf("a %s has no metadata.name", object.GetKind())
		}
		objects = append(objects, essence(object))
	}
}

func essence(object *unstructured.Unstructured) *unstructured.Unstructured {
	left := object.DeepCopy()
	delete(left.Object, "status")
	delete(left.Object, "metadata")
	left.SetName(object.GetName())
	left.SetGenerateName(object.GetGenerateName())
	left.SetNamespace(object.GetNamespace())
	left.SetLabels(object.GetLabels())
	annotations := object.GetAnnotations()
	delete(annotations, lastApplied)
	left.SetAnnotations(annotations)
	return left
}

// plan says what applying an object would do.
func (p *planner) plan(ctx context.Context, object *unstructured.Unstructured) (*plannedObject, error) {
	if object.GetNamespace() == "" {
		object.SetNamespace(p.namespace)
	}
	result := &plannedObject{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(),
		Name: cmp.Or(object.GetName(), object.GetGenerateName())}
	if isOperation(object) {
		return result, p.rehearse(ctx, result, object)
	}
	if _, refusal := opsflow.ParseTarget(result.reference()); refusal != nil ||
		object.GetAPIVersion() == platformv1.GroupVersion.String() && object.GetKind() != "Application" {
		return nil, fmt.Errorf("cannot plan %s: only an Application, an object that compiles to one, or an Operation can "+
			"be planned", result)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := p.client.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		result.New = true
		created := object.DeepCopy()
		if err := p.client.Create(ctx, created, client.DryRunAll, client.FieldOwner(p.flags.fieldManager),
			client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			return nil, fmt.Errorf("%s: %w", result, brief(err))
		}
		spec, _, _ := unstructured.NestedMap(created.Object, "spec")
		result.Changes, err = p.ask(ctx, result, spec)
		return result, err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", result, err)
	}
	applied, err := p.applied(ctx, live, object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", result, brief(err))
	}
	result.Fields = differences(live, applied)
	spec, _, _ := unstructured.NestedMap(applied.Object, "spec")
	before, _, _ := unstructured.NestedMap(live.Object, "spec")
	if len(opsflow.Differences(before, spec)) == 0 {
		return result, nil
	}
	result.Changes, err = p.ask(ctx, result, spec)
	return result, err
}

// applied is the object as the API server would store it, defaults included. What refuses it on the way, such as the
// operator's webhook, says so here.
func (p *planner) applied(ctx context.Context, live,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if p.flags.serverSide {
		applied := object.DeepCopy()
		options := []client.ApplyOption{client.DryRunAll, client.FieldOwner(p.flags.fieldManager)}
		if p.flags.force {
			options = append(options, client.ForceOwnership)
		}
		return applied, p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), options...)
	}
	patch, err := threeWay(live, object)
	if err != nil {
		return nil, err
	}
	applied := live.DeepCopy()
	return applied, p.client.Patch(ctx, applied, client.RawPatch(types.MergePatchType, patch), client.DryRunAll,
		client.FieldOwner(p.flags.fieldManager),
		client.FieldValidation(metav1.FieldValidationStrict))
}

// brief leaves out the whole object, which the API server prints in front of the name of a field that is not known.
func brief(err error) error {
	const strict = "strict decoding error: "
	if _, after, found := strings.Cut(err.Error(), strict); found {
		return errors.New(after)
	}
	return err
}

// threeWay is the patch that kubectl apply sends: what is in the object, and null for what was in the one applied last
// and no longer is.
func threeWay(live, object *unstructured.Unstructured) ([]byte, error) {
	current, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	modified, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	last := []byte(live.GetAnnotations()[lastApplied])
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, modified, current)
	if err != nil {
		return nil, fmt.Errorf("cannot compare it with what was applied last: %w", err)
	}
	return patch, nil
}

// differences says in words what an apply changes of labels, annotations and spec.
func differences(before, after *unstructured.Unstructured) []string {
	of := func(object *unstructured.Unstructured) map[string]any {
		picked, metadata := map[string]any{}, map[string]any{}
		for _, name := range []string{"labels", "annotations"} {
			if found, ok, _ := unstructured.NestedMap(object.Object, "metadata", name); ok {
				delete(found, lastApplied)
				metadata[name] = found
			}
		}
		picked["metadata"] = metadata
		if spec, ok, _ := unstructured.NestedMap(object.Object, "spec"); ok {
			picked["spec"] = spec
		}
		return picked
	}
	return opsflow.Differences(of(before), of(after))
}

// ask has the operator say what it would do for another spec.
func (p *planner) ask(ctx context.Context, of *plannedObject, spec map[string]any) ([]platformv1.PlannedChange, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, GenerateName: "plan-"},
		Spec: platformv1.OperationSpec{
			TemplateRef: "Plan", TargetRef: of.reference(), TargetSpec: string(data), DryRun: true,
			Timeout: &metav1.Duration{Duration: p.flags.patience}, TTLSecondsAfterFinished: new(int32(recordSeconds)),
		},
	}
	if err := p.answer(ctx, of, op); err != nil {
		return nil, err
	}
	return op.Status.Changes, nil
}

func isOperation(object *unstructured.Unstructured) bool {
	return object.GetAPIVersion() == platformv1.GroupVersion.String() && object.GetKind() == "Operation"
}

// rehearse has the operator say what an Operation would do, by a dry run of the same.
func (p *planner) rehearse(ctx context.Context, of *plannedObject, object *unstructured.Unstructured) error {
	op := &platformv1.Operation{}
	data, err := object.MarshalJSON()
	if err == nil {
		err = yaml.UnmarshalStrict(data, op)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", of, err)
	}
	op.ObjectMeta = metav1.ObjectMeta{Namespace: of.Namespace, GenerateName: "plan-", Labels: op.Labels}
	op.Spec.DryRun, op.Spec.Cancel, op.Spec.TTLSecondsAfterFinished = true, false, new(int32(recordSeconds))
	op.Spec.Approval, op.Spec.Approvals = nil, nil
	if err := p.answer(ctx, of, op); err != nil {
		return err
	}
	of.Template, of.Plan, of.Changes, of.Timeout = op.Spec.TemplateRef, op.Status.Plan, op.Status.Changes,
		op.Status.Timeout
	return nil
}

// answer makes an Operation that is a dry run, waits until it says what would be done, and deletes it.
func (p *planner) answer(ctx context.Context, of *plannedObject, op *platformv1.Operation) error {
	if err := p.client.Create(ctx, op); err != nil {
		return fmt.Errorf("cannot ask the operator about %s, which takes an Operation: %w", of, err)
	}
	defer p.forget(ctx, op)
	err := wait.PollUntilContextTimeout(ctx, answerPoll, p.flags.patience, true, func(ctx context.Context) (bool, error) {
		err := p.client.Get(ctx, client.ObjectKeyFromObject(op), op)
		return err == nil && opsflow.Finished(op), err
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("no operator has said within %s what it would do with %s%s", p.flags.patience, of, said(op))
	case err != nil:
		return fmt.Errorf("cannot read the answer about %s: %w", of, err)
	case op.Status.Phase != platformv1.OperationSucceeded:
		return fmt.Errorf("%s would be refused: %s", of, op.Status.Error)
	}
	return nil
}

// said is what an Operation says that has not ended.
func said(op *platformv1.Operation) string {
	for _, condition := range []string{platformv1.AcceptedCondition, platformv1.ReadyCondition} {
		if found := meta.FindStatusCondition(op.Status.Conditions, condition); found != nil && found.Message != "" {
			return ": " + found.Message
		}
	}
	return ": see whether the operator of its domain runs"
}

// forget deletes the record, also when somebody has interrupted the tool.
func (p *planner) forget(ctx context.Context, op *platformv1.Operation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	_ = p.client.Delete(ctx, op) // Where that is not possible, its time to live is.
}
