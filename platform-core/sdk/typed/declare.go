// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"bytes"
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
// passwordFrom, with PasswordKey where it names no key. All others are parameters by the rules of ParametersOf. Those
// that are empty are said too, so that the middleware takes away what was there: WithoutEmpty leaves them to the
// defaults of the plugin.
func EntityOf(entityType string, declared any) platformv1.EntitySpec {
	entity := platformv1.EntitySpec{
		Type: entityType, Parameters: parametersOf(declared), DeletionPolicy: platformv1.EntityDelete,
	}
	for field, value := range reflect.ValueOf(declared).Elem().Fields() {
		switch said := value.Interface().(type) {
		case platformv1.SecretKeyReference:
			entity.PasswordFrom = PasswordFrom(&said)
		case *platformv1.SecretKeyReference:
			entity.PasswordFrom = PasswordFrom(said)
		case platformv1.EntityDeletionPolicy:
			entity.DeletionPolicy = cmp.Or(said, platformv1.EntityRetain)
		}
		switch jsonName(&field) {
		case nameField:
			entity.Name = value.String()
		case adoptField:
			entity.Adopt = value.Bool()
		}
	}
	return entity
}

// EntitiesOf returns the Entities that the structs of a list of the API declare, by the rules of EntityOf.
func EntitiesOf[T any](entityType string, declared []T) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for i := range declared {
		specs = append(specs, EntityOf(entityType, &declared[i]))
	}
	return specs
}

// Fields of a struct that are those of its Entity.
const (
	nameField  = "name"
	adoptField = "adopt"
)

// ParametersOf returns the parameters that a struct of the API stands for, by the names of its fields in JSON. declared
// is a pointer to the struct. What is empty or not set is left to the defaults of the plugin.
//
// A parameter's name is that of the field in lower case with hyphens, such as object-lock for objectLock, or the tag
// `parameter` of the field; with the tag "-" it is none, and neither are name, adopt, deletionPolicy and a
// SecretKeyReference. A struct is its fields, with its own name before theirs, such as retention-days for
// retention.days; one that is nil is one that says nothing.
//
// A bool is yes or no, and a pointer to one yes where it is nil. A word of a type of its own, such as Versioning, is in
// lower case, and any other text as it is. A JSONDocument is on one line. A quantity is in units, a ByteSize in bytes,
// and a time in RFC 3339. Words of a list are in alphabetical order with blanks between; structs of a list are a list
// in JSON, as they are in the API and in the order of their texts. An empty text and list is an empty parameter; a
// number, quantity or ByteSize that is not set is none. Maps are no parameters.
func ParametersOf(declared any) platformv1.Parameters {
	return WithoutEmpty(platformv1.EntitySpec{Parameters: parametersOf(declared)}).Parameters
}

// parametersOf has those that are empty as well.
func parametersOf(declared any) platformv1.Parameters {
	parameters := platformv1.Parameters{}
	for field, value := range reflect.ValueOf(declared).Elem().Fields() {
		if name := jsonName(&field); name != nameField && name != adoptField {
			addParameters(parameters, "", &field, value)
		}
	}
	return parameters
}

// addParameters adds those that a field stands for, with the name before theirs of the struct that it is in.
func addParameters(to platformv1.Parameters, before string, field *reflect.StructField, value reflect.Value) {
	name := parameterName(field)
	if name == "-" || slices.Contains(noParameters, field.Type) {
		return
	}
	name = before + name
	if text, is := parameterOf(value); is {
		to[name] = text
		return
	}
	if value.Kind() == reflect.Pointer {
		if value = value.Elem(); !value.IsValid() {
			value = reflect.Zero(field.Type.Elem())
		}
	}
	if value.Kind() != reflect.Struct || slices.Contains(values, value.Type()) {
		return
	}
	for inner, said := range value.Fields() {
		addParameters(to, name+"-", &inner, said)
	}
}

var (
	// noParameters are types of fields that are no parameters.
	noParameters = []reflect.Type{reflect.TypeFor[platformv1.SecretKeyReference](),
		reflect.TypeFor[*platformv1.SecretKeyReference](), reflect.TypeFor[platformv1.EntityDeletionPolicy]()}
	// values are structs that are a parameter as a whole where they are set.
	values     = []reflect.Type{reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time]()}
	wordBegins = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

func jsonName(field *reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// parameterName is the name of the parameter that a field is, by the rules of ParametersOf.
func parameterName(field *reflect.StructField) string {
	return cmp.Or(field.Tag.Get(parameterTag), strings.ToLower(wordBegins.ReplaceAllString(jsonName(field), "$1-$2")))
}

// parameterOf returns the value of a field by the rules of ParametersOf, and whether it is a parameter.
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
	case platformv1.ByteSize:
		// The schema lets nothing through that is no quantity.
		size, err := resource.ParseQuantity(string(said))
		return Number(size.Value()), err == nil
	case platformv1.JSONDocument:
		return oneLine(said), true
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
		if value.Type() != reflect.TypeFor[string]() {
			return Lower(value.String()), true
		}
		return platformv1.ParameterValue(value.String()), true
	case reflect.Slice:
		return listOf(value)
	}
	return "", false
}

// oneLine is a document in JSON without what is between its words. One that is no JSON keeps it, but for line breaks,
// which no parameter has: the plugin refuses it.
func oneLine(document platformv1.JSONDocument) platformv1.ParameterValue {
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(document)); err != nil {
		return platformv1.ParameterValue(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(document)))
	}
	return platformv1.ParameterValue(out.String())
}

// listOf returns a list as a parameter, and whether it is one.
func listOf(list reflect.Value) (platformv1.ParameterValue, bool) {
	var texts []string
	switch list.Type().Elem().Kind() {
	case reflect.String:
		for i := range list.Len() {
			texts = append(texts, list.Index(i).String())
		}
		return Words(texts), true
	case reflect.Struct:
		for i := range list.Len() {
			texts = append(texts, string(JSON(list.Index(i).Interface())))
		}
	default:
		return "", false
	}
	if len(texts) == 0 {
		return "", true
	}
	slices.Sort(texts)
	return platformv1.ParameterValue("[" + strings.Join(texts, ",") + "]"), true
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
