package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// contract is package api in the form from which all generated files are written.
type contract struct {
	source  *source
	enums   []*enum
	objects []*object // parameters first, then results, each in the order of the methods
	byType  map[reflect.Type]*object
	byField map[string]*enum // type.field → its words, where it is a string in Go
}

// object is a struct of package api.
type object struct {
	name, doc string
	fields    []field // an embedded struct is one of them
	params    bool    // part of a request, not of an answer
	strict    bool    // unknown fields are refused
	// oneOf lists groups of fields; a request must have all fields of one group.
	oneOf [][]string
}

type field struct {
	embed    *object // an embedded struct, which has no name and no type; optional if all its fields may be absent
	name     string  // on the wire
	doc      string
	typ      kind
	optional bool
	pointer  bool // an absent field differs from one with the zero value

	deprecated *api.Deprecation // of the whole field; nil if it is not deprecated
}

// kind is a type on the wire.
type kind struct {
	word   string // string, integer, number, boolean, time, any, enum, object, list or map
	elem   *kind  // of a list or map
	enum   *enum
	object *object
	single bool // a list of one may be written without the list
}

type enum struct {
	name, doc string
	values    []string
}

// allFields returns the fields with those of embedded structs in their place.
func (o *object) allFields() []field {
	var list []field
	for _, f := range o.fields {
		if f.embed == nil {
			list = append(list, f)
			continue
		}
		for _, g := range f.embed.allFields() {
			g.optional, g.pointer = g.optional || f.optional, g.pointer || f.optional
			list = append(list, g)
		}
	}
	for i := range list {
		list[i].optional = list[i].optional || slices.ContainsFunc(o.oneOf, func(line []string) bool { return slices.Contains(line, list[i].name) })
	}
	return list
}

// parts splits the fields into embedded structs and the others.
func (o *object) parts() (embedded, own []field) {
	for _, f := range o.fields {
		if f.embed != nil {
			embedded = append(embedded, f)
		} else {
			own = append(own, f)
		}
	}
	return embedded, own
}

// oneOf lists groups of optional fields by type: a request must have all fields of one group. Go's
// omitempty cannot express that.
var oneOf = map[string][][]string{
	"ExecParams":         {{"command"}, {"argv"}},
	"ExecStreamParams":   {{"session_id", "command"}, {"session_id", "argv"}, {"exec_id"}},
	"ExecCancelParams":   {{"exec_id"}, {"session_id"}},
	"ExecWaitParams":     {{"exec_ids"}, {"session_ids"}},
	"ExecInputParams":    {{"data"}, {"data_base64"}, {"close"}, {"pty"}},
	"SessionInputParams": {{"text"}, {"data_base64"}, {"paste"}, {"keys"}, {"close"}},
	"SessionWaitParams":  {{"text"}, {"idle_s"}, {"idle_ms"}, {"exit"}, {"cursor"}, {"waiting_for_input"}},
	"CursorAt":           {{"x"}, {"y"}},

	"DialogueSendParams":    {{"text"}, {"content"}},
	"DialogueRespondParams": {{"decision"}, {"option"}, {"answers"}},
	"DialogueSetParams":     {{"model"}, {"permission_mode"}, {"policy"}},
}

// enumFields are strings in Go that have a known set of values.
var enumFields = map[string]string{
	"StreamEvent.type":           "EventType",
	"StreamEvent.stream":         "StreamName",
	"ExecStreamParams.stream":    "StreamName",
	"ExecOutputParams.stream":    "StreamName",
	"ExecOutputResult.stream":    "StreamName",
	"WaitEvent.stream":           "StreamName",
	"WaitEvent.reason":           "WaitReason",
	"ExecWaitParams.until":       "WaitUntil",
	"EventSubscribeParams.types": "EventFilter",
	"SessionScreenParams.format": "ScreenFormat",
	"SessionWaitResult.reason":   "SessionWaitReason",
}

// readContract reads package api, whose source is in dir.
func readContract(dir string) (*contract, error) {
	src, err := readSource(dir)
	if err != nil {
		return nil, err
	}
	c := &contract{source: src, byType: map[reflect.Type]*object{}, byField: map[string]*enum{}}
	c.enums = []*enum{
		src.typed("SessionKind"), src.typed("PlaceKind"), src.typed("SessionState"), src.typed("ExecState"), src.typed("DialogueState"), src.typed("DialogueEventType"),
		{"ErrorCode", src.withoutSubject(src.types["Code"], "Code"), src.values(func(k constant) bool { return k.typeName == "Code" })},
		{"EventType", "The type of a push.", src.values(isEvent)},
		{"EventFilter", "The events that event.subscribe can select.", slices.Concat(api.EventKinds, api.EventTypes)},
		{"StreamName", "A stream of output.", []string{api.EventStdout, api.EventStderr}},
		{"WaitUntil", "A condition of exec.wait.", src.values(isUntil)},
		{"WaitReason", "Why exec.wait ended for a command.", src.values(func(k constant) bool {
			return isUntil(k) || k.name == "ReasonTerminated" || k.name == "ReasonNoCommand"
		})},
		{"SessionWaitReason", "Why session.wait ended.", src.values(func(k constant) bool { return strings.HasPrefix(k.name, "Wait") })},
		{"ScreenFormat", "The format of the screen that session.screen returns.", src.values(func(k constant) bool { return strings.HasPrefix(k.name, "Format") })},
	}
	c.nameFields()
	for _, m := range api.Methods() {
		if err := c.add(m.Params, true, m.Strict); err != nil {
			return nil, err
		}
	}
	for _, m := range api.Methods() {
		if err := c.add(m.Result, false, false); err != nil {
			return nil, err
		}
	}
	for _, t := range []reflect.Type{reflect.TypeFor[api.StreamEvent](), reflect.TypeFor[api.Error]()} {
		if err := c.add(t, false, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// nameFields sets the enumerations of the fields that are strings in Go.
func (c *contract) nameFields() {
	for field, name := range enumFields {
		c.byField[field] = c.enum(name)
	}
	for _, w := range dialogueWords {
		c.enums = append(c.enums, &w.enum)
		for _, field := range w.fields {
			c.byField[field] = &w.enum
		}
	}
}

func isEvent(k constant) bool { return strings.HasPrefix(k.name, "Event") }
func isUntil(k constant) bool { return strings.HasPrefix(k.name, "Until") }

// typed returns the enumeration of the constants of a type.
func (s *source) typed(name string) *enum {
	return &enum{name, s.withoutSubject(s.types[name], name), s.values(func(k constant) bool { return k.typeName == name })}
}

func (s *source) values(which func(constant) bool) []string {
	var list []string
	for _, k := range s.consts {
		if which(k) {
			list = append(list, k.value)
		}
	}
	return list
}

// add appends a struct, after the structs of its fields.
func (c *contract) add(t reflect.Type, params, strict bool) error {
	if o := c.byType[t]; o != nil {
		if o.params != params {
			return fmt.Errorf("%s: is both sent and answered; the two need types of their own", t)
		}
		o.strict = o.strict || strict
		return nil
	}
	o := &object{name: t.Name(), params: params, strict: strict, oneOf: oneOf[t.Name()]}
	o.doc = c.source.withoutSubject(onTheWire(c.source.types[o.name], wireNames(t)), o.name)
	c.byType[t] = o // before its fields, because a field may have the same type
	for i := range t.NumField() {
		if err := c.addField(o, t, t.Field(i)); err != nil {
			return fmt.Errorf("%s.%s: %w", o.name, t.Field(i).Name, err)
		}
	}
	c.objects = append(c.objects, o)
	return nil
}

func (c *contract) addField(o *object, t reflect.Type, f reflect.StructField) error {
	tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	ft, pointer := f.Type, f.Type.Kind() == reflect.Pointer
	if pointer {
		ft = ft.Elem()
	}
	switch {
	case f.Anonymous:
		if err := c.add(ft, o.params, o.strict); err != nil {
			return err
		}
		o.fields = append(o.fields, field{embed: c.byType[ft], optional: pointer, doc: c.source.withoutSubject(c.source.fields[o.name][f.Name], f.Name)})
		return nil
	case !f.IsExported() || tag == "-":
		return nil
	case tag == "":
		return fmt.Errorf("has no name on the wire")
	}
	k, err := c.kind(ft, o)
	if err != nil {
		return err
	}
	set := c.byField[o.name+"."+tag]
	if set != nil {
		e := kind{word: "enum", enum: set}
		if k.word == "list" {
			k.elem = &e
		} else {
			k = e
		}
	}
	doc := c.source.fieldDoc(o.name, f.Name, wireNames(t))
	if doc == "" {
		return fmt.Errorf("has no comment: what is it to a reader of the documents?")
	}
	if first := strings.ToLower(goWord.FindString(doc)); set != nil && slices.Contains(set.values, first) {
		doc = first + doc[len(first):] // a word of the wire stays in lower case
	}
	own := field{name: tag, doc: doc, typ: k, optional: pointer || strings.Contains(options, "omit"), pointer: pointer}
	if own.doc, own.deprecated, err = deprecation(o.name, tag, doc); err != nil {
		return err
	}
	o.fields = append(o.fields, own)
	return nil
}

// deprecation returns the deprecation of a field, and the text of its comment before Go's
// paragraph about it. The comment and api.Deprecations must agree.
func deprecation(typeName, tag, doc string) (text string, found *api.Deprecation, err error) {
	text, _, marked := strings.Cut(doc, " Deprecated: ")
	for i, d := range api.Deprecations {
		if d.Field == typeName+"."+tag && d.Value == "" {
			found = &api.Deprecations[i]
		}
	}
	if marked != (found != nil) {
		return "", nil, fmt.Errorf("api.Deprecations and the comment do not agree whether the field is deprecated")
	}
	return text, found, nil
}

// fullDoc is the text about a field for readers, with its deprecation.
func (f field) fullDoc() string {
	if f.deprecated == nil {
		return f.doc
	}
	return fmt.Sprintf("%s Deprecated: use %s. Release %s removes it.", f.doc, f.deprecated.Use, f.deprecated.Removed)
}

// wireNames maps the Go names of the fields of a struct to those on the wire.
func wireNames(t reflect.Type) map[string]string {
	names := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			names[f.Name] = tag
		}
	}
	return names
}

func (c *contract) enum(name string) *enum {
	return c.enums[slices.IndexFunc(c.enums, func(e *enum) bool { return e.name == name })]
}

func (c *contract) kind(t reflect.Type, in *object) (kind, error) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return kind{word: "time"}, nil
	case reflect.TypeFor[json.RawMessage]():
		return kind{word: "any"}, nil
	case reflect.TypeFor[api.SessionKind](), reflect.TypeFor[api.PlaceKind](), reflect.TypeFor[api.SessionState](), reflect.TypeFor[api.ExecState](),
		reflect.TypeFor[api.DialogueState](), reflect.TypeFor[api.DialogueEventType]():
		return kind{word: "enum", enum: c.enum(t.Name())}, nil
	case reflect.TypeFor[api.Code]():
		return kind{word: "enum", enum: c.enum("ErrorCode")}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return kind{word: "string"}, nil
	case reflect.Bool:
		return kind{word: "boolean"}, nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return kind{word: "integer"}, nil
	case reflect.Float64:
		return kind{word: "number"}, nil
	case reflect.Interface:
		return kind{word: "any"}, nil
	case reflect.Slice, reflect.Map:
		elem, err := c.kind(t.Elem(), in)
		if t.Kind() == reflect.Map {
			return kind{word: "map", elem: &elem}, err
		}
		// Only a type that decodes itself can accept more than a list.
		return kind{word: "list", elem: &elem, single: reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())}, err
	case reflect.Struct:
		err := c.add(t, in.params, in.strict)
		return kind{word: "object", object: c.byType[t]}, err
	}
	return kind{}, fmt.Errorf("%s: the generator has no word for this type", t)
}
