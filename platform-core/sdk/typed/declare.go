// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// parameterTag names the parameter of a field of the API that is not called like the field; "-" is none.
	parameterTag = "parameter"
	// maxParameter is how long a parameter of an Entity may be, in characters.
	maxParameter = 4096
	// Yes and No are a bool as a parameter.
	Yes, No = "yes", "no"
)

// yesOrNo is a bool as a parameter.
var yesOrNo = map[bool]platformv1.ParameterValue{true: Yes, false: No}

// EntityOf returns the Entity that a struct of the API declares, by the names of its fields in JSON. declared is a
// pointer to the struct; what the rules do not cover the kind adds to the result.
//
// The fields name, adopt and deletionPolicy are those of the Entity. An empty deletionPolicy is Retain; a struct
// without that field declares something that holds no data, so that the policy is Delete. A SecretKeyReference is
// passwordFrom, with PasswordKey where it names no key.
//
// Any other field is a parameter. Its name is that of the field in lower case with hyphens, such as object-lock for
// objectLock, or the tag `parameter` of the field; with the tag "-" it is none. A bool is yes or no, and a pointer to
// one yes where it is nil; words of a list are in alphabetical order with blanks between; a quantity is in units; a
// time is in RFC 3339. An empty text and list is an empty parameter, so that the middleware takes away what was there:
// WithoutEmpty leaves it to the default of the plugin. A number or quantity that is nil is left out. Structs, maps, and
// lists of structs are no parameters.
func EntityOf(entityType string, declared any) platformv1.EntitySpec {
	entity := platformv1.EntitySpec{
		Type: entityType, Parameters: platformv1.Parameters{}, DeletionPolicy: platformv1.EntityDelete,
	}
	for field, value := range reflect.ValueOf(declared).Elem().Fields() {
		switch said := value.Interface().(type) {
		case platformv1.SecretKeyReference:
			entity.PasswordFrom = PasswordFrom(&said)
			continue
		case *platformv1.SecretKeyReference:
			entity.PasswordFrom = PasswordFrom(said)
			continue
		case platformv1.EntityDeletionPolicy:
			entity.DeletionPolicy = cmp.Or(said, platformv1.EntityRetain)
			continue
		}
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name {
		case "name":
			entity.Name = value.String()
		case "adopt":
			entity.Adopt = value.Bool()
		default:
			if text, is := parameterOf(value); is && parameterName(&field) != "-" {
				entity.Parameters[parameterName(&field)] = text
			}
		}
	}
	return entity
}

var wordBegins = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// parameterName is the name of the parameter that a field is, by the rules of EntityOf.
func parameterName(field *reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return cmp.Or(field.Tag.Get(parameterTag), strings.ToLower(wordBegins.ReplaceAllString(name, "$1-$2")))
}

// parameterOf returns the value of a field by the rules of EntityOf, and whether it is a parameter.
func parameterOf(value reflect.Value) (platformv1.ParameterValue, bool) {
	switch said := value.Interface().(type) {
	case *bool:
		return yesOrNo[said == nil || *said], true
	case *metav1.Time:
		if said == nil {
			return "", true
		}
		return platformv1.ParameterValue(said.UTC().Format(time.RFC3339)), true
	case *resource.Quantity:
		if said == nil {
			return "", false
		}
		return Number(said.Value()), true
	}
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Bool:
		return yesOrNo[value.Bool()], true
	case reflect.Int32, reflect.Int64:
		return Number(value.Int()), true
	case reflect.String:
		return platformv1.ParameterValue(value.String()), true
	case reflect.Slice:
		if value.Type().Elem().Kind() != reflect.String {
			return "", false
		}
		var texts []string
		for i := range value.Len() {
			texts = append(texts, value.Index(i).String())
		}
		return Words(texts), true
	}
	return "", false
}

// WithoutEmpty takes out the parameters that are empty, so that they have the defaults of the plugin.
func WithoutEmpty(entity platformv1.EntitySpec) platformv1.EntitySpec {
	maps.DeleteFunc(entity.Parameters, func(_ string, value platformv1.ParameterValue) bool { return value == "" })
	return entity
}

// FillStatus sets the fields of a status, by the names that EntityOf has for parameters, to what an Entity reports of
// them as status.observed or status.facts. status is a pointer to a struct; fields that nothing is reported of keep
// their values, and a number that cannot be read, such as of an agent of another version, is 0.
func FillStatus(status any, reported map[string]string) {
	for field, value := range reflect.ValueOf(status).Elem().Fields() {
		text, is := reported[parameterName(&field)]
		if !is {
			continue
		}
		switch value.Kind() {
		case reflect.String:
			value.SetString(text)
		case reflect.Bool:
			value.SetBool(text == Yes)
		case reflect.Int32, reflect.Int64:
			number, err := strconv.ParseInt(text, 10, value.Type().Bits())
			if err != nil {
				number = 0
			}
			value.SetInt(number)
		}
	}
}

// Number is a whole number as a parameter.
func Number[T int | int32 | int64](n T) platformv1.ParameterValue {
	return platformv1.ParameterValue(strconv.FormatInt(int64(n), 10))
}

// Lower is a word of the API as a parameter of a plugin whose words are in lower case.
func Lower[T ~string](word T) platformv1.ParameterValue {
	return platformv1.ParameterValue(strings.ToLower(string(word)))
}

// Words are the words of a list as a parameter: with blanks between, in alphabetical order, since their order means
// nothing.
func Words[T ~string](list []T) platformv1.ParameterValue {
	texts := make([]string, 0, len(list))
	for _, word := range list {
		texts = append(texts, string(word))
	}
	slices.Sort(texts)
	return platformv1.ParameterValue(strings.Join(texts, " "))
}

// JSON is a value as a parameter in JSON: on one line, the keys of maps in order, without the escapes that only HTML
// needs. It panics where the value cannot be encoded: a json.RawMessage is checked before.
func JSON(value any) platformv1.ParameterValue {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return platformv1.ParameterValue(strings.TrimSuffix(out.String(), "\n"))
}

// checkLengths refuses an Entity with a parameter that the API server would not take.
func checkLengths(entity *platformv1.EntitySpec) error {
	for _, name := range slices.Sorted(maps.Keys(entity.Parameters)) {
		if n := utf8.RuneCountInString(string(entity.Parameters[name])); n > maxParameter {
			return fmt.Errorf("%s of %s %q takes %d characters, and at most %d are allowed: "+
				"shorten the fields that it is made of", name, entity.Type, entity.Name, n, maxParameter)
		}
	}
	return nil
}
