// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	commonv1 "github.com/zeroinfra/common-operator/api/v1"
	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// leaf is a field whose Go type does not decode every value of its JSON type.
type leaf struct {
	path   string
	schema *apiextensionsv1.JSONSchemaProps
	goType reflect.Type
}

// TestFieldsAdmitOnlyWhatDecodes goes through the Go types of every kind, as a client decodes them, and through the
// schema beside them: an object that the API server stores and no client decodes would be missing from every list.
func TestFieldsAdmitOnlyWhatDecodes(t *testing.T) {
	counts := map[reflect.Type]int{}
	tried := map[string]bool{}
	for _, l := range leaves(t) {
		counts[l.goType]++
		if isNumber(l.goType) {
			numberIsBounded(t, l)
			continue
		}
		s := l.schema
		rules, err := json.Marshal([]any{l.goType.String(), s.Pattern, s.MaxLength, s.Format, s.XValidations})
		if err != nil {
			t.Fatal(err)
		}
		if tried[string(rules)] {
			continue
		}
		tried[string(rules)] = true
		a, err := admissionOf(l.schema)
		if err != nil {
			t.Errorf("%s: %v", l.path, err)
			continue
		}
		for _, value := range samples[l.goType] {
			if err := agrees(a, l.goType, value); err != nil {
				t.Errorf("%s: %v", l.path, err)
			}
		}
	}
	for goType, least := range map[reflect.Type]int{
		durationType: 20, timeType: 50, microTimeType: 2, quantityType: 20, intOrStringType: 3, numberType: 50,
	} {
		if counts[goType] < least {
			t.Errorf("only %d fields of type %v were found: the search is broken", counts[goType], goType)
		}
	}
}

var (
	durationType    = reflect.TypeFor[metav1.Duration]()
	timeType        = reflect.TypeFor[metav1.Time]()
	microTimeType   = reflect.TypeFor[metav1.MicroTime]()
	quantityType    = reflect.TypeFor[resource.Quantity]()
	intOrStringType = reflect.TypeFor[intstr.IntOrString]()
	numberType      = reflect.TypeFor[int32]()
)

// agrees compares what a schema admits with what its Go type decodes. It may refuse of that what nobody writes.
func agrees(a admission, goType reflect.Type, value string) error {
	admitted := a.admits(value)
	if !admitted && isUnusual(goType, value) {
		return nil
	}
	if goType == quantityType && endless.MatchString(value) {
		return fmt.Errorf("the schema admits %q, which takes minutes and all memory to decode", value)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	switch failure := json.Unmarshal(text, reflect.New(goType).Interface()); {
	case admitted && failure != nil:
		return fmt.Errorf("the schema admits %q, which does not decode as %v: %v", value, goType, failure)
	case !admitted && failure == nil:
		return fmt.Errorf("the schema refuses %q, which decodes as %v", value, goType)
	}
	return nil
}

// isUnusual is true of what Go may decode beyond the notation that it documents.
func isUnusual(goType reflect.Type, value string) bool {
	switch goType {
	case quantityType:
		// A number without a digit, such as "m", blanks around it, and exponents of three digits.
		return !documentedQuantity.MatchString(value) || len(value) > longest
	case durationType:
		return len(value) > longest
	}
	// time.Parse takes a comma for the point and hours of one digit, and RFC 3339 does not.
	return !rfc3339.MatchString(value)
}

// numberIsBounded has the schema of a number keep to the range of its type: the API server does not look at its format.
func numberIsBounded(t *testing.T, l leaf) {
	t.Helper()
	least, most := l.schema.Minimum, l.schema.Maximum
	if least == nil || *least < math.MinInt32 || most == nil || *most > math.MaxInt32 {
		t.Errorf("%s: the schema admits numbers that do not decode as %v: give it a minimum and a maximum", l.path, l.goType)
	}
}

// isNumber is true of types that decode numbers of 32 bits.
func isNumber(goType reflect.Type) bool {
	return goType.Kind() == reflect.Int32 || goType == intOrStringType
}

// leaves are those of all kinds of all operators.
func leaves(t *testing.T) []leaf {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(platformv1.AddToScheme(scheme), storagev1.AddToScheme(scheme), databasev1.AddToScheme(scheme),
		messagev1.AddToScheme(scheme), aiv1.AddToScheme(scheme), commonv1.AddToScheme(scheme), batchv1.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	var found []leaf
	for path, data := range definitions(t) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		// Neither the sample of the test kit nor what tests have of other projects is a kind of ours.
		ours := strings.HasSuffix(definition.Spec.Group, ".zeroinfra.github.com")
		if !ours || strings.Contains(filepath.ToSlash(path), "/sdk/testkit/") {
			continue
		}
		for _, version := range definition.Spec.Versions {
			group := kubeschema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			kind := group.WithKind(definition.Spec.Names.Kind)
			obj, err := scheme.New(kind)
			if err != nil {
				t.Errorf("%s: there is no Go type of it: %v", path, err)
				continue
			}
			w := walker{t: t, visit: func(l leaf) { found = append(found, l) }}
			w.walk(kind.Kind, version.Schema.OpenAPIV3Schema, reflect.TypeOf(obj).Elem())
		}
	}
	return found
}

// walker goes through a Go type and its schema side by side.
type walker struct {
	t     *testing.T
	visit func(leaf)
}

func (w walker) walk(path string, s *apiextensionsv1.JSONSchemaProps, goType reflect.Type) {
	switch {
	case goType == durationType, goType == timeType, goType == microTimeType, goType == quantityType, isNumber(goType):
		w.visit(leaf{path, s, goType})
		return
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields && len(s.Properties) == 0:
		return
	case goType == reflect.TypeFor[metav1.ObjectMeta]() && len(s.Properties) == 0:
		// The API server knows the metadata of an object.
		return
	}
	switch goType.Kind() {
	case reflect.Pointer:
		w.walk(path, s, goType.Elem())
	case reflect.Slice:
		if s.Items != nil && s.Items.Schema != nil {
			w.walk(path+"[]", s.Items.Schema, goType.Elem())
		}
	case reflect.Map:
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			w.walk(path+"{}", s.AdditionalProperties.Schema, goType.Elem())
		}
	case reflect.Struct:
		w.fields(path, s, goType)
	}
}

func (w walker) fields(path string, s *apiextensionsv1.JSONSchemaProps, goType reflect.Type) {
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			w.walk(path, s, field.Type)
		default:
			property, there := s.Properties[name]
			if !there {
				w.t.Errorf("%s.%s: the schema has no such field", path, name)
				continue
			}
			w.walk(path+"."+name, &property, field.Type)
		}
	}
}

// samples of each type: what people write, right and wrong, and values that are alike.
var samples = map[reflect.Type][]string{
	durationType: variations(durationLetters,
		"0", "0s", "1s", "90s", "1.5h", "-1s", "+2m", "1h30m", "1h30m1.5s", ".5h", "1.h", "5ns", "5us", "5µs", "5μs", "15ms",
		"2562047h47m16s", "2562048h", "87600h", "1d", "30d", "1w", "1y", "P1D", "PT5M", "1", "", "s", ".s", "h1", "1 h",
		" 1h", "1H", "1h ", "1hour", "one", "1e3s", "1,5h", "--1s", "9999999999999s", "0.000000000000000000001s",
		time.Duration(math.MaxInt64).String(), time.Duration(math.MinInt64).String(), strings.Repeat("1h", 33)),
	timeType: variations(timeLetters,
		"2026-01-31T12:00:00Z", "2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00.5-23:59",
		"2026-01-31T12:00:00.123456789Z", "2028-02-29T00:00:00Z", "2026-01-31t12:00:00Z", "2026-01-31T12:00:00z",
		"2026-01-31t12:00:00z", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z",
		"2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-01-31",
		"12:00:00Z", "2026-01-31T12:00Z", "2026-01-31T1:00:00Z", "2026-01-31T12:00:00,5Z", "2026-01-31T12:00:00x5Z",
		"2026-01-31T12:00:00.Z", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+99:99", "2026-01-31T12:00:00+0100",
		"0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "tomorrow", "", " 2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00Z\n"),
	microTimeType: variations(timeLetters,
		"2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00.123456+01:00", "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00.123Z", "2026-01-31T12:00:00.1234567Z", "2026-01-31t12:00:00.123456z",
		"2026-02-30T12:00:00.123456Z", ""),
	quantityType: variations(quantityLetters,
		"0", "1", "1.5", ".5", "1.", "-1", "+1", "500m", "100n", "1u", "2k", "2Ki", "2M", "2Mi", "1.5Gi", "3T", "3Ti", "1P",
		"1Pi", "1E", "1Ei", "1e3", "1E3", "1e-3", "12e+10", "1e1.5", "1e.5", "1e", "1e3Gi", "10GB", "10gb", "10Kb", "1K",
		"1ki", "1mi", "1 Gi", " 1Gi", "1Gi ", "Gi", "", ".", "-", "m", "1,5Gi", "one", "0x10", "1_000", "1e99", "1e999",
		"9999999999999999999999Ei", "1--2", "+-1", strings.Repeat("1", 70)),
}
