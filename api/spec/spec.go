// Package spec holds the contract of TRL in the forms that other programs read.
// Its files are generated from package api by internal/gen.
package spec

import (
	_ "embed"
	"strings"
)

// OpenAPI is the HTTP interface as OpenAPI 3.1, in JSON.
//
//go:embed openapi.json
var OpenAPI []byte

// Schema is JSON Schema 2020-12: every parameter, result, push and error in $defs,
// and in x-methods which method has which.
//
//go:embed schema.json
var Schema []byte

//go:embed help.txt
var help string

// Help returns a text for people on a method: its parameters, its answer and an
// example. It is empty for a method that does not exist.
func Help(method string) string {
	_, section, _ := strings.Cut(help, "\n== "+method+"\n")
	section, _, _ = strings.Cut(section, "\n== ")
	if section == "" {
		return ""
	}
	return strings.TrimSuffix(section, "\n") + "\n"
}
