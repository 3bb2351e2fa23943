// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
)

// edit changes the object that declares what the Application is to be. It says which generation has the change, also
// when it was there already.
func (c *Controller) edit(ctx context.Context, seen *observation, edit *opsflow.Edit) (*opsflow.Answer, error) {
	change, refusal, err := c.think(ctx, seen, edit)
	switch {
	case apierrors.IsNotFound(err):
		// The cache is yet to hear of that: a run ends with its target then, and no step of it has failed.
		return &opsflow.Answer{Failure: opsflow.FailureUnreachable,
			Problem: fmt.Sprintf("%s is gone", seen.facts.Declared.Object)}, nil
	case err != nil:
		return nil, err
	case refusal != "":
		return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: refusal}, nil
	}
	outputs := map[string]string{opsflow.OutputChanged: strings.Join(change.Changed, ", ")}
	if len(change.Changed) > 0 {
		err := c.editor.Write(ctx, change)
		switch {
		case apierrors.IsConflict(err):
			return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: "it was changed at the same time"},
				nil
		case refused(err):
			return refuse("%s cannot be changed: %v", seen.facts.Declared.Object, err), nil
		case err != nil:
			return nil, fmt.Errorf("cannot change %s: %w", seen.facts.Declared.Object, err)
		}
		change.Warn(c.events, change.Live)
	}
	outputs[opsflow.OutputGeneration] = strconv.FormatInt(change.After.GetGeneration(), 10)
	return &opsflow.Answer{Outputs: outputs}, nil
}

func refuse(message string, args ...any) *opsflow.Answer {
	return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: fmt.Sprintf(message, args...)}
}

// think works out what an edit changes, and whether it may and the pods have room for it; it touches nothing.
func (c *Controller) think(ctx context.Context, seen *observation,
	edit *opsflow.Edit) (*outermost.Change, string, error) {
	change, refusal, err := c.editor.Think(ctx, seen.facts.Application, edit)
	// A whole spec is only planned here: whoever edits it by hand is not asked.
	if err == nil && refusal == "" && edit.Spec == nil && len(change.Changed) > 0 && change.Application != nil {
		refusal = c.tooLittleMemory(ctx, seen, change.Application)
	}
	return change, refusal, err
}
