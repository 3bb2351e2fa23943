// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
)

// JobResources are those of the container of a job, by name.
type JobResources struct {
	Requests map[corev1.ResourceName]JobAmount `json:"requests,omitempty"`
	Limits   map[corev1.ResourceName]JobAmount `json:"limits,omitempty"`
}

// JobAmount is a quantity, or a text with placeholders that gives one. A placeholder that gives an empty text, or 0,
// leaves the resource out.
type JobAmount string

// UnmarshalJSON reads a number or a text.
func (a *JobAmount) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*a = JobAmount(text)
	} else {
		*a = JobAmount(data)
	}
	if placeholder.In(string(*a)) {
		return nil
	}
	if _, err := resource.ParseQuantity(string(*a)); err != nil {
		return errors.New("it must be a quantity such as 500m, 2, 512Mi or 8Gi")
	}
	return nil
}

// Fill returns the resources with the amounts that text makes of them. The error is a sentence without its beginning:
// whose they are.
func (r JobResources) Fill(text func(source string) (string, error)) (corev1.ResourceRequirements, error) {
	requests, err := fillAmounts(r.Requests, text)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	limits, err := fillAmounts(r.Limits, text)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	filled := corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return filled, resources.Check(filled)
}

func fillAmounts(amounts map[corev1.ResourceName]JobAmount,
	text func(string) (string, error)) (corev1.ResourceList, error) {
	var list corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		source := string(amounts[name])
		amount, err := text(source)
		if err != nil {
			return nil, err
		}
		written := !placeholder.In(source)
		if amount == "" && !written {
			continue
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("has %q of %s: it must be a quantity such as 500m, 2, 512Mi or 8Gi", amount, name)
		}
		if quantity.IsZero() && !written {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantity
	}
	return list, nil
}

// texts are the amounts by their path below the resources.
func (r JobResources) texts(add func(text string, path ...string)) {
	for field, amounts := range map[string]map[corev1.ResourceName]JobAmount{"requests": r.Requests, "limits": r.Limits} {
		for name, amount := range amounts {
			add(string(amount), field, string(name))
		}
	}
}

// check looks at what is known before the placeholders are filled in: all names, and the amounts where all of them are
// written out.
func (r JobResources) check() error {
	known := true
	r.texts(func(text string, _ ...string) { known = known && !placeholder.In(text) })
	if known {
		_, err := r.Fill(func(text string) (string, error) { return text, nil })
		return err
	}
	for _, amounts := range []map[corev1.ResourceName]JobAmount{r.Requests, r.Limits} {
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			if err := resources.CheckName(name); err != nil {
				return err
			}
		}
	}
	return nil
}
