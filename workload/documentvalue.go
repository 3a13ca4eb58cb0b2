package workload

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A document is read into the types of this package, and written from them, by
// their doc tags: the name of a field, and "opt" if it may be left out, which
// stands for its zero value. A field with the tag "-" has no place in a document,
// and one with ",inline" is as if embedded.
// The name says the unit of a time: it ends in _s or _ms.

// documentField is a field of a struct as a document has it.
type documentField struct {
	index    []int
	goName   string
	name     string // empty: it has no place in a document
	optional bool
}

// documentFields returns the fields of a struct, those of embedded ones among
// them.
func documentFields(t reflect.Type) []documentField {
	tags, foreign := foreignTags[t]
	var out []documentField
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag, ok := f.Tag.Lookup("doc")
		switch {
		case foreign:
			tag = tags[i]
		case f.Anonymous && !ok, tag == ",inline":
			for _, inner := range documentFields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
			continue
		case !ok:
			panic(fmt.Sprintf("workload: %v.%s has no doc tag", t, f.Name))
		}
		name, option, _ := strings.Cut(tag, ",")
		if name == "-" {
			name = ""
		}
		out = append(out, documentField{index: f.Index, goName: t.Name() + "." + f.Name, name: name, optional: option == "opt"})
	}
	return out
}

// unitOf is the unit of a time of that name.
func unitOf(name string) time.Duration {
	switch {
	case strings.HasSuffix(name, "_ms"):
		return time.Millisecond
	case strings.HasSuffix(name, "_s") && !strings.HasSuffix(name, "_per_s"):
		return time.Second
	}
	return 0
}

// decode sets v, which can be set, from a value. name is that of the field it
// stands in.
func (n *node) decode(v reflect.Value, name string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		s, ok := n.token.(string)
		if !ok {
			return n.errorf("%s, want a string", n.what())
		}
		if err := u.UnmarshalText([]byte(s)); err != nil {
			return n.errorf("%w", err)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		return n.decodeKind(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return n.decode(v.Elem(), name)
	case reflect.Struct:
		if isClientPath(v.Type()) {
			return n.decodeKind(v)
		}
		if n.token != json.Delim('{') {
			return n.errorf("%s, want an object", n.what())
		}
		if err := n.decodeFields(v, ""); err != nil {
			return err
		}
		return n.check(v.Addr().Interface())
	case reflect.Slice:
		return n.decodeList(v, name)
	case reflect.String:
		s, ok := n.token.(string)
		if !ok {
			return n.errorf("%s, want a string", n.what())
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.token.(bool)
		if !ok {
			return n.errorf("%s, want true or false", n.what())
		}
		v.SetBool(b)
	default:
		return n.decodeNumber(v, name)
	}
	return nil
}

func (n *node) decodeNumber(v reflect.Value, name string) error {
	number, ok := n.token.(json.Number)
	if v.Kind() == reflect.Float64 && n.token == "inf" { // JSON has no infinity
		v.SetFloat(math.Inf(1))
		return nil
	}
	if !ok {
		return n.errorf("%s, want a number", n.what())
	}
	text := number.String()
	switch v.Kind() {
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return n.errorf("%s is beyond the numbers of a float64", brief(text))
		}
		v.SetFloat(f)
	case reflect.Uint64:
		u, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return n.errorf("%s, want a whole number from 0 to 2^64-1", brief(text))
		}
		v.SetUint(u)
	case reflect.Int, reflect.Int64:
		if unit := unitOf(name); unit != 0 && v.Kind() == reflect.Int64 {
			d, err := parseDuration([]byte(text), unit)
			if err != nil {
				return n.errorf("%s: %w", brief(text), err)
			}
			v.SetInt(d)
			return nil
		}
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return n.errorf("%s, want a whole number", brief(text))
		}
		v.SetInt(i)
	default:
		panic(fmt.Sprintf("workload: a document cannot have %v", v.Type()))
	}
	return nil
}

func (n *node) decodeList(v reflect.Value, name string) error {
	if n.token != json.Delim('[') {
		return n.errorf("%s, want a list", n.what())
	}
	if len(n.values) == 0 {
		return nil
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.values), len(n.values)))
	for i, item := range n.values {
		if err := item.decode(v.Index(i), name); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

// decodeFields sets the fields of a struct from the members of an object, all
// but the one of a name.
func (n *node) decodeFields(v reflect.Value, but string) error {
	var known []string
	found := 0
	for _, f := range documentFields(v.Type()) {
		if f.name == "" {
			continue
		}
		known = append(known, f.name)
		member := n.member(f.name)
		if member == nil {
			if !f.optional {
				return n.errorf("the field %q is missing", f.name)
			}
			continue
		}
		found++
		if err := member.decode(v.FieldByIndex(f.index), f.name); err != nil {
			return within("."+f.name, err)
		}
	}
	return n.refuseOthers(found, known, but)
}

// refuseOthers is an error if an object has other members than those found.
func (n *node) refuseOthers(found int, known []string, but string) error {
	if n.member(but) != nil {
		found++
	}
	if found == len(n.names) {
		return nil
	}
	for i, name := range n.names {
		if name == but || slices.Contains(known, name) {
			continue
		}
		if len(known) == 0 {
			return n.values[i].errorf("unknown field %q, there are no others here", brief(name))
		}
		return n.values[i].errorf("unknown field %q, known are %s", brief(name), strings.Join(known, ", "))
	}
	return nil
}

// decodeKind sets an interface, or a type that has kinds, from an object that names its kind.
func (n *node) decodeKind(v reflect.Value) error {
	if n.token != json.Delim('{') {
		return n.errorf("%s, want an object with a kind", n.what())
	}
	tag := n.member("kind")
	if tag == nil {
		return n.errorf("the field \"kind\" is missing, it is one of %s", kindNames(v.Type()))
	}
	name, ok := tag.token.(string)
	if !ok {
		return within(".kind", tag.errorf("%s, want a string", tag.what()))
	}
	k := kindNamed(v.Type(), name)
	if k == nil {
		return within(".kind", tag.errorf("unknown kind %q, known are %s", brief(name), kindNames(v.Type())))
	}
	if k.preset != nil {
		v.Set(reflect.ValueOf(k.preset()))
		return n.refuseOthers(0, nil, "kind")
	}
	t := reflect.TypeOf(k.value)
	x := reflect.New(t).Elem()
	x.Set(reflect.ValueOf(k.value))
	fields := x
	if t.Kind() == reflect.Pointer {
		x.Set(reflect.New(t.Elem()))
		fields = x.Elem()
	}
	if k.field == "" {
		if err := n.decodeFields(fields, "kind"); err != nil {
			return err
		}
	} else {
		member := n.member(k.field)
		if member == nil {
			return n.errorf("the field %q is missing", k.field)
		}
		if err := member.decode(x, k.field); err != nil {
			return within("."+k.field, err)
		}
		if err := n.refuseOthers(1, []string{k.field}, "kind"); err != nil {
			return err
		}
	}
	v.Set(x)
	return n.check(x.Interface())
}

// check validates a value that has been read, as far as that needs no other
// file.
func (n *node) check(x any) error {
	if f, ok := x.(fromFile); ok {
		f.foundIn(n.place)
	}
	if v, ok := x.(validator); ok {
		if err := v.Validate(); err != nil {
			return n.errorf("%w", err)
		}
	}
	return nil
}

// encode returns a value as a document has it. goName says whose it is in
// errors, name is that of the field it stands in.
func encode(v reflect.Value, goName, name string) (*node, error) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", goName, err)
		}
		return &node{token: string(text)}, nil
	}
	switch v.Kind() {
	case reflect.Interface:
		return encodeKind(v, goName)
	case reflect.Pointer:
		if v.IsNil() {
			return nil, fmt.Errorf("%s is nil", goName)
		}
		return encode(v.Elem(), goName, name)
	case reflect.Struct:
		if isClientPath(v.Type()) {
			return encodeKind(v, goName)
		}
		n := &node{token: json.Delim('{')}
		return n, n.encodeFields(v)
	case reflect.Slice:
		n := &node{token: json.Delim('[')}
		for i := range v.Len() {
			item, err := encode(v.Index(i), fmt.Sprintf("%s[%d]", goName, i), name)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, item)
		}
		return n, nil
	case reflect.String:
		return &node{token: v.String()}, nil
	case reflect.Bool:
		return &node{token: v.Bool()}, nil
	case reflect.Uint64:
		return &node{token: json.Number(strconv.FormatUint(v.Uint(), 10))}, nil
	case reflect.Int, reflect.Int64:
		if unit := unitOf(name); unit != 0 && v.Kind() == reflect.Int64 {
			return encodeDuration(time.Duration(v.Int()), unit, goName)
		}
		return &node{token: json.Number(strconv.FormatInt(v.Int(), 10))}, nil
	case reflect.Float64:
		f := v.Float()
		switch {
		case math.IsInf(f, 1):
			return &node{token: "inf"}, nil
		case math.IsInf(f, -1) || math.IsNaN(f):
			return nil, fmt.Errorf("%s is %v, which a document has no number for", goName, f)
		}
		return &node{token: json.Number(scalar(f))}, nil
	}
	panic(fmt.Sprintf("workload: a document cannot have %v", v.Type()))
}

// encodeDuration writes a time in a unit, with as many decimals as it has.
func encodeDuration(d, unit time.Duration, goName string) (*node, error) {
	if d < 0 {
		return nil, fmt.Errorf("%s is %v, want at least 0", goName, d)
	}
	text := strconv.FormatInt(int64(d/unit), 10)
	if rest := d % unit; rest != 0 {
		places := len(strconv.FormatInt(int64(unit), 10)) - 1
		text += "." + strings.TrimRight(fmt.Sprintf("%0*d", places, int64(rest)), "0")
	}
	return &node{token: json.Number(text)}, nil
}

func (n *node) encodeFields(v reflect.Value) error {
	for _, f := range documentFields(v.Type()) {
		x := v.FieldByIndex(f.index)
		switch {
		case f.name == "" && !x.IsZero():
			return fmt.Errorf("%s is set, which a document has no place for", f.goName)
		case f.name == "", f.optional && x.IsZero():
			continue
		}
		member, err := encode(x, f.goName, f.name)
		if err != nil {
			return err
		}
		n.add(f.name, member)
	}
	return nil
}

func encodeKind(v reflect.Value, goName string) (*node, error) {
	x := v
	if v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil, fmt.Errorf("%s is nil", goName)
		}
		x = v.Elem()
	}
	k := kindOf(v.Type(), x.Interface())
	if k == nil {
		return nil, fmt.Errorf("%s is a %v, which a document has no kind for", goName, x.Type())
	}
	n := &node{token: json.Delim('{')}
	n.add("kind", &node{token: k.name})
	switch {
	case k.preset != nil:
		return n, nil
	case k.field != "":
		member, err := encode(x, x.Type().Name(), k.field)
		if err != nil {
			return nil, err
		}
		n.add(k.field, member)
		return n, nil
	case x.Kind() == reflect.Pointer:
		x = x.Elem()
	}
	return n, n.encodeFields(x)
}
