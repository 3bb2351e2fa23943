// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// leavingRecheck is how soon to look again at a name whose holder is leaving. The
// holder may be outside of the cache, and then no watch tells of its end.
const leavingRecheck = 5 * time.Second

// takenRecheck is how soon to look again at a name that a foreign object has, for the
// same cause. It costs reads only.
const takenRecheck = 10 * time.Second

// NameTakenError says that an object that is not ours has the name that we need.
// It is left untouched.
type NameTakenError struct {
	// Object is the kind and the name that we need, for example `Service "default/a"`.
	Object string
	// Owner says whose it is, for example `Redis "a"`, or "no object of this operator".
	Owner string
	// Leaving says that the object is on its way out: it is being deleted, or it
	// belongs to an earlier owner of the same kind and name and is about to be
	// collected. Waiting is enough then.
	Leaving bool
}

// Error implements error. It says what to do.
func (e *NameTakenError) Error() string {
	if e.Leaving {
		return fmt.Sprintf("%s is still there from %s and is being removed", e.Object, e.Owner)
	}
	return fmt.Sprintf("%s belongs to %s: delete or rename it", e.Object, e.Owner)
}

// ConditionReason implements outcome.Reasoned.
func (e *NameTakenError) ConditionReason() string { return platformv1.ReasonNameTaken }

// quotaError is the refusal of an object by a ResourceQuota.
type quotaError struct{ error }

// Error implements error. It says what to do.
func (e quotaError) Error() string {
	return e.error.Error() + ": raise the ResourceQuota or ask for less; it is tried again until then"
}

// Unwrap returns what the API server says.
func (e quotaError) Unwrap() error { return e.error }

// ConditionReason implements outcome.Reasoned.
func (e quotaError) ConditionReason() string { return platformv1.ReasonQuotaExceeded }

// ExceedsQuota says whether the API server refused an object for a ResourceQuota, which it tells by its message alone.
func ExceedsQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// Outcome sorts an error of an Applier: a taken name stalls, one whose holder is
// leaving waits, as does a namespace that is being deleted, nil is done, and
// everything else is a failure, with a reason of its own for a ResourceQuota.
func Outcome(err error) outcome.Outcome {
	var taken *NameTakenError
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return outcome.Waiting(platformv1.ReasonDeleting, "the namespace is being deleted")
	case ExceedsQuota(err):
		return outcome.Failed(quotaError{err})
	case !errors.As(err, &taken):
		return outcome.Failed(err)
	case taken.Leaving:
		return outcome.WaitingFor(leavingRecheck, platformv1.ReasonNameTaken, taken.Error())
	default:
		return outcome.StalledFor(takenRecheck, platformv1.ReasonNameTaken, taken.Error())
	}
}

// checkOwner returns a *NameTakenError unless the live object is ours: it has the
// controller that the desired one has; or it has none, carries our label, and
// no label of it names another domain or another Application.
func checkOwner(scheme *runtime.Scheme, want, live client.Object) error {
	ours, theirs := metav1.GetControllerOf(want), metav1.GetControllerOf(live)
	taken := &NameTakenError{Object: nameOf(scheme, want), Leaving: live.GetDeletionTimestamp() != nil}
	switch {
	case theirs != nil && ours != nil && theirs.UID == ours.UID:
		return nil
	case theirs != nil:
		taken.Owner = fmt.Sprintf("%s %q", theirs.Kind, theirs.Name)
		if ours != nil && theirs.Kind == ours.Kind && theirs.Name == ours.Name {
			taken.Owner = "an earlier " + taken.Owner
			taken.Leaving = true
		}
		return taken
	case !managed(live):
		taken.Owner = "no object of this operator"
		return taken
	}
	for _, label := range []string{platformv1.DomainLabel, platformv1.ApplicationUIDLabel} {
		is, should := live.GetLabels()[label], want.GetLabels()[label]
		if is != "" && should != "" && is != should {
			taken.Owner = fmt.Sprintf("another (label %s=%s)", label, is)
			return taken
		}
	}
	return nil
}

func nameOf(scheme *runtime.Scheme, obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return describe(obj)
	}
	return fmt.Sprintf("%s %q", gvk.Kind, client.ObjectKeyFromObject(obj))
}
