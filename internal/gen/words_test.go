package main

import (
	"slices"
	"strings"
	"testing"
)

// TestWordsAreThoseOfTheComments: the comment of a field lists all its words, and every field of an
// enumeration exists.
func TestWordsAreThoseOfTheComments(t *testing.T) {
	c := testContract(t)
	for _, w := range dialogueWords {
		for _, name := range w.fields {
			typeName, fieldName, _ := strings.Cut(name, ".")
			i := slices.IndexFunc(c.objects, func(o *object) bool { return o.name == typeName })
			if i < 0 {
				t.Errorf("%s: there is no such type", name)
				continue
			}
			fields := c.objects[i].allFields()
			j := slices.IndexFunc(fields, func(f field) bool { return f.name == fieldName })
			if j < 0 {
				t.Errorf("%s: there is no such field", name)
				continue
			}
			said := goWord.FindAllString(fields[j].doc, -1)
			for _, v := range w.values {
				if !slices.Contains(said, v) {
					t.Errorf("%s: its comment does not name %s: %s", name, v, fields[j].doc)
				}
			}
		}
	}
}

// TestTypeMadeOfItself: an item can contain items of its own type.
func TestTypeMadeOfItself(t *testing.T) {
	c := testContract(t)
	schema, err := writeSchema(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"DialogueItem": {`, `"DialogueToolCall": {`, `"$ref": "#/$defs/DialogueItem"`} {
		if !strings.Contains(string(schema), want) {
			t.Errorf("the schema has no %s", want)
		}
	}
	if n := strings.Count(string(schema), `"DialogueItem": {`); n != 1 {
		t.Errorf("DialogueItem is defined %d times", n)
	}
	page, err := writePage(c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "| `items` | list of [DialogueItem](#type-dialogueitem), may be absent |") {
		t.Error("the page does not say what items are made of")
	}
}
