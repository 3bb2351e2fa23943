// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// lifeOf is a world with an Operation that makes or deletes its target.
func lifeOf(template string) *world {
	w := newWorld(Defaults()[template])
	w.op.Name, w.op.Spec.TemplateRef, w.op.Spec.TargetSpec = "run", template, "version: \"7.0\""
	w.facts.Declared = Declared{Object: w.facts.Target}
	return w
}

// lifeStories are those of steps that make or delete the target.
var lifeStories = map[string]func() *world{
	"create": func() *world {
		w := lifeOf(TemplateCreate)
		for _, point := range []crashPoint{crashBeforeWrite, crashAfterWrite, crashAfterCall} {
			w.happens("A controller starts.", func(w *world) { w.crash = point })
		}
		w.happens("A controller starts.", nil)
		w.happens("It is looked at.", func(w *world) {
			w.facts.Declared.ObservedGeneration,
				w.facts.Declared.Ready.Message = 1, "no pods yet"
		})
		w.happens("It is Ready.", func(w *world) { w.facts.Declared.Ready = Condition{Status: metav1.ConditionTrue} })
		return w
	},
	"create-of-what-is-gone": func() *world {
		w := lifeOf(TemplateCreate)
		w.happens("The Operation starts.", nil)
		w.happens("Somebody deletes it.", func(w *world) { w.facts.Self = nil })
		return w
	},
	"delete": func() *world {
		w := lifeOf(TemplateDelete)
		w.facts.Self = &Self{UID: "self", Application: "app"}
		for _, point := range []crashPoint{crashAfterWrite, crashAfterCall} {
			w.happens("A controller starts.", func(w *world) { w.crash = point })
		}
		w.happens("A controller starts.", nil)
		w.happens("The object is gone, and a pod is not; somebody makes another object of that name.", func(w *world) {
			w.facts.Self, w.facts.Remains = &Self{UID: "other"}, []string{`pod "redis-a-main-0"`}
		})
		w.happens("The pod is gone.", func(w *world) { w.facts.Remains = nil })
		return w
	},
}

func TestCheckLife(t *testing.T) {
	target := Target{Kind: TargetTyped, ObjectKind: "Redis", Name: "a", Application: "redis-a"}
	for name, tc := range map[string]struct {
		template string
		target   Target
		account  string
		self     *Self
		retryOf  string
		says     string
	}{
		"make":            {TemplateCreate, target, "able", nil, "", ""},
		"made already":    {TemplateCreate, target, "able", &Self{Maker: "op-uid"}, "", ""},
		"another's":       {TemplateCreate, target, "able", &Self{Maker: "other"}, "", `there is a Redis "a" already`},
		"nobody's rights": {TemplateCreate, target, "", nil, "", "may create a Redis in serviceAccountName"},
		"retry":           {TemplateCreate, target, "able", nil, "first", "cannot be tried again"},
		"part": {TemplateDelete, Target{Kind: TargetComponent, ObjectKind: "Component", Name: "c"}, "able", nil,
			"", "is for an Application or a typed object"},
		"delete":           {TemplateDelete, target, "able", &Self{}, "", ""},
		"delete nothing":   {TemplateDelete, target, "able", nil, "", `there is no Redis "a"`},
		"delete as nobody": {TemplateDelete, target, "", &Self{}, "", "may delete a Redis in serviceAccountName"},
	} {
		op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{UID: "op-uid"},
			Spec: platformv1.OperationSpec{TemplateRef: tc.template, ServiceAccountName: tc.account, RetryOf: tc.retryOf}}
		refusal := CheckLife(op, tc.target, tc.self)
		if tc.says == "" && refusal != nil || tc.says != "" &&
			(refusal == nil || !strings.Contains(refusal.Message, tc.says)) {
			t.Errorf("%s: %v, want %q", name, refusal, tc.says)
		}
	}
}
