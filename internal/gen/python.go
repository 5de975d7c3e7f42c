package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/trl-dev/trl/api"
)

const pythonHead = `# %s
"""Types of the wire: parameters as TypedDicts, results and pushes as frozen dataclasses.

from_dict takes what a daemon sent. It ignores what it does not know and fills in what is
missing, so that newer and older daemons are understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypedDict

API_VERSION = %d
"""The version of the wire contract, as system.info tells it."""


def _time(text: str) -> datetime:
    """Reads RFC 3339 in UTC; what is finer than a microsecond is cut off."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.strptime(whole, "%%Y-%%m-%%dT%%H:%%M:%%S")
    return moment.replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=timezone.utc)


_NEVER = datetime.min.replace(tzinfo=timezone.utc)
`

// writePython writes TypedDicts for parameters, dataclasses for the rest.
func writePython(c *contract) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, pythonHead, notice, api.Version)
	for _, e := range c.enums {
		fmt.Fprintf(&b, "\n%s = Literal[\n    %s,\n]\n", e.name, strings.Join(quoted(e.values), ",\n    "))
		docstring(&b, "", e.doc)
	}
	for _, o := range c.objects {
		b.WriteString("\n\n")
		if o.params {
			o.typedDict(&b)
		} else {
			o.dataclass(&b)
		}
	}
	list := func(doc, name, typ, open, end string, values []string) {
		fmt.Fprintf(&b, "\n%s: %s = %s\n    %s,\n%s\n\"\"\"%s\"\"\"\n", name, typ, open, strings.Join(values, ",\n    "), end, doc)
	}
	b.WriteString("\n")
	list("All methods.", "METHODS", "tuple[str, ...]", "(", ")", methodNames(all))
	list("The methods whose answer is followed by pushes.", "STREAMING", "frozenset[str]", "frozenset((", "))", methodNames(streams))
	list("The methods that change nothing.", "READS", "frozenset[str]", "frozenset((", "))", methodNames(reads))
	var results []string
	for _, m := range api.Methods() {
		results = append(results, fmt.Sprintf("%q: %s.from_dict", m.Name, m.Result.Name()))
	}
	list("What makes the result of a method from the data of its answer.", "RESULTS", "dict[str, Callable[[Mapping[str, Any]], Any]]", "{", "}", results)
	list("All error codes. A newer daemon may have more.", "ERROR_CODES", "tuple[str, ...]", "(", ")", quoted(c.enum("ErrorCode").values))
	return b.Bytes(), nil
}

func docstring(b *bytes.Buffer, indent, text string) {
	lines := wrap(strings.ReplaceAll(text, `\`, `\\`), 92)
	if len(lines) == 1 && !strings.HasSuffix(text, `"`) {
		fmt.Fprintf(b, "%s\"\"\"%s\"\"\"\n", indent, lines[0])
		return
	}
	fmt.Fprintf(b, "%s\"\"\"%s\n%s\"\"\"\n", indent, strings.Join(lines, "\n"+indent), indent)
}

// typedDict writes the required keys as a separate class, because Python 3.10 has no NotRequired.
func (o *object) typedDict(b *bytes.Buffer) {
	var required, optional []field
	for _, f := range o.allFields() {
		if f.optional {
			optional = append(optional, f)
		} else {
			required = append(required, f)
		}
	}
	class := func(name, base, doc string, fields []field) {
		fmt.Fprintf(b, "class %s(%s):\n", name, base)
		docstring(b, "    ", doc)
		for _, f := range fields {
			fmt.Fprintf(b, "\n    %s: %s\n", f.name, f.typ.python())
			docstring(b, "    ", f.fullDoc())
		}
	}
	switch {
	case len(required) == 0:
		class(o.name, "TypedDict, total=False", o.doc, optional)
	case len(optional) == 0:
		class(o.name, "TypedDict", o.doc, required)
	default:
		class("_"+o.name, "TypedDict", "The keys of "+o.name+" that must be given.", required)
		b.WriteString("\n\n")
		class(o.name, "_"+o.name+", total=False", o.doc, optional)
	}
}

func (o *object) dataclass(b *bytes.Buffer) {
	name, base, own := sdkName(o.name), "", o.allFields()
	if embedded, rest := o.parts(); len(embedded) == 1 && !embedded[0].optional {
		base, own = "("+embedded[0].embed.name+")", rest
	}
	fmt.Fprintf(b, "@dataclass(frozen=True, kw_only=True)\nclass %s%s:\n", name, base)
	docstring(b, "    ", o.doc)
	for _, f := range own {
		typ, zero := f.typ.python(), f.typ.pythonZero()
		if f.typ.word == "enum" { // a newer daemon may know more words
			typ += " | str"
		}
		if f.pointer {
			typ, zero = typ+" | None", "None"
		}
		fmt.Fprintf(b, "\n    %s: %s = %s\n", pythonName(f.name), typ, zero)
		docstring(b, "    ", f.fullDoc())
	}
	fmt.Fprintf(b, "\n    @classmethod\n    def from_dict(cls, data: Mapping[str, Any]) -> %s:\n", name)
	b.WriteString("        \"\"\"Takes the fields it knows from what a daemon sent.\"\"\"\n        get = data.get\n        return cls(\n")
	for _, f := range o.allFields() {
		fmt.Fprintf(b, "            %s=%s,\n", pythonName(f.name), f.fromDict())
	}
	b.WriteString("        )\n")
}

// fromDict returns the expression for the value of the field. It treats null as absent.
func (f field) fromDict() string {
	get, value := fmt.Sprintf("get(%q)", f.name), fmt.Sprintf("data[%q]", f.name)
	made := ""
	switch k := f.typ; {
	case k.word == "time":
		made = "_time(" + value + ")"
	case k.word == "object" && f.pointer:
		made = sdkName(k.object.name) + ".from_dict(" + value + ")"
	case k.word == "object":
		return sdkName(k.object.name) + ".from_dict(" + get + " or {})"
	case k.word == "list" && k.elem.word == "object" && f.pointer:
		made = "[" + sdkName(k.elem.object.name) + ".from_dict(x) for x in " + value + "]"
	case k.word == "list" && k.elem.word == "object":
		return "[" + sdkName(k.elem.object.name) + ".from_dict(x) for x in " + get + " or ()]"
	case f.pointer:
		return get
	case k.word == "list":
		return get + " or []"
	case k.word == "map":
		return get + " or {}"
	default:
		return get + " or " + k.pythonZero()
	}
	if f.pointer {
		return fmt.Sprintf("%s if %s is not None else None", made, get)
	}
	return fmt.Sprintf("%s if %s else %s", made, get, f.typ.pythonZero())
}

func (k kind) python() string {
	switch k.word {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "time":
		return "datetime"
	case "any":
		return "Any"
	case "enum":
		return k.enum.name
	case "object":
		return sdkName(k.object.name)
	case "map":
		return "dict[str, " + k.elem.python() + "]"
	}
	if k.single {
		return k.elem.python() + " | list[" + k.elem.python() + "]"
	}
	return "list[" + k.elem.python() + "]"
}

// pythonZero returns the value of an absent field.
func (k kind) pythonZero() string {
	switch k.word {
	case "integer":
		return "0"
	case "number":
		return "0.0"
	case "boolean":
		return "False"
	case "time":
		return "_NEVER"
	case "object":
		return "field(default_factory=lambda: " + sdkName(k.object.name) + "())"
	case "map":
		return "field(default_factory=dict)"
	case "list":
		return "field(default_factory=list)"
	}
	return `""`
}
