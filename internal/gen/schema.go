package main

import (
	"bytes"
	"encoding/json"

	"github.com/trl-dev/trl/api"
)

// node is a JSON object that keeps its order: a key, its value, a key, …
type node []any

// MarshalJSON writes the pairs in their order.
func (n node) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, x := range n {
		if i > 0 {
			b.WriteByte(",:"[i%2])
		}
		if err := enc.Encode(x); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// writeSchema writes JSON Schema 2020-12: every type in $defs, every method in x-methods.
func writeSchema(c *contract) ([]byte, error) {
	const refs = "#/$defs/"
	methods := node{}
	for _, m := range api.Methods() {
		methods = append(methods, m.Name, node{
			"description", m.Summary, "params", ref(refs, m.Params.Name()), "result", ref(refs, m.Result.Name()),
			"streams", m.Streams, "reads", m.Access == api.AccessRead, "strict", m.Strict,
		})
	}
	return indented(node{
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"$comment", notice,
		"title", "TRL",
		"description", "Parameters, results, pushes and errors of the methods of TRL. x-methods tells which method has which.",
		"x-methods", methods,
		"$defs", c.schemas(refs),
	})
}

// schemas returns the schema of every type by its name.
func (c *contract) schemas(refs string) node {
	defs := node{}
	for _, e := range c.enums {
		defs = append(defs, e.name, node{"description", e.doc, "type", "string", "enum", e.values})
	}
	for _, o := range c.objects {
		defs = append(defs, o.name, o.schema(refs))
	}
	return defs
}

func (o *object) schema(refs string) node {
	properties, required := node{}, []string{}
	for _, f := range o.allFields() {
		property := append(f.typ.schema(refs), "description", f.fullDoc())
		if f.deprecated != nil {
			property = append(property, "deprecated", true)
		}
		properties = append(properties, f.name, property)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	s := node{"description", o.doc, "type", "object", "properties", properties}
	if len(required) > 0 {
		s = append(s, "required", required)
	}
	if len(o.oneOf) > 0 {
		choices := []node{}
		for _, line := range o.oneOf {
			choices = append(choices, node{"required", line})
		}
		s = append(s, "anyOf", choices)
	}
	if o.strict {
		s = append(s, "additionalProperties", false)
	}
	return s
}

func ref(refs, name string) node { return node{"$ref", refs + name} }

func (k kind) schema(refs string) node {
	switch k.word {
	case "time":
		return node{"type", "string", "format", "date-time"}
	case "any":
		return node{}
	case "enum":
		return ref(refs, k.enum.name)
	case "object":
		return ref(refs, k.object.name)
	case "map":
		return node{"type", "object", "additionalProperties", k.elem.schema(refs)}
	case "list":
		list := node{"type", "array", "items", k.elem.schema(refs)}
		if k.single {
			return node{"anyOf", []node{k.elem.schema(refs), list}}
		}
		return list
	}
	return node{"type", k.word}
}
