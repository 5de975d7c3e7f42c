package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source has the parts of package api that reflection cannot see: comments and constants.
type source struct {
	types  map[string]string            // type → its comment
	fields map[string]map[string]string // type → field → the comment that describes it
	consts []constant                   // in the order of the files
}

type constant struct{ name, typeName, value, doc string }

// readSource reads the Go files of a package, without tests.
func readSource(dir string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{types: map[string]string{}, fields: map[string]map[string]string{}}
	fset := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				s.read(d)
			}
		}
	}
	if len(s.types) == 0 {
		return nil, fmt.Errorf("%s: no types found", dir)
	}
	return s, nil
}

func (s *source) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.types[spec.Name.Name] = oneLine(spec.Doc.Text() + d.Doc.Text())
			if st, ok := spec.Type.(*ast.StructType); ok {
				s.fields[spec.Name.Name] = fieldComments(st)
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && len(spec.Names) == 1 && len(spec.Values) == 1 {
				s.addConst(spec)
			}
		}
	}
}

func (s *source) addConst(spec *ast.ValueSpec) {
	lit, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	c := constant{name: spec.Names[0].Name, value: value, doc: oneLine(spec.Doc.Text() + spec.Comment.Text())}
	if t, ok := spec.Type.(*ast.Ident); ok {
		c.typeName = t.Name
	}
	s.consts = append(s.consts, c)
}

// fieldComments returns the comment of every field. A comment above a group of fields also belongs to
// the later fields of the group that it names.
func fieldComments(st *ast.StructType) map[string]string {
	comments := map[string]string{}
	above := ""
	for _, f := range st.Fields.List {
		own := oneLine(f.Doc.Text())
		if own != "" {
			above = own
		}
		for _, name := range names(f) {
			switch {
			case own != "":
				comments[name] = own
			case f.Comment != nil:
				comments[name] = oneLine(f.Comment.Text())
			case word(name).MatchString(above):
				comments[name] = above
			}
		}
	}
	return comments
}

// names returns the names of the fields; an embedded field is named after its type.
func names(f *ast.Field) []string {
	var list []string
	for _, n := range f.Names {
		list = append(list, n.Name)
	}
	if t, ok := f.Type.(*ast.StarExpr); ok && list == nil {
		f = &ast.Field{Type: t.X}
	}
	if t, ok := f.Type.(*ast.Ident); ok && list == nil {
		list = append(list, t.Name)
	}
	return list
}

func word(name string) *regexp.Regexp { return regexp.MustCompile(`\b` + name + `\b`) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// fieldDoc turns the comment of a Go field into a text for readers who do not know Go. From a comment
// on several fields, it takes the sentences on this field. It replaces the names of fields by those
// on the wire, and omits the name of the field itself at the beginning, because the documents show
// it beside the text.
func (s *source) fieldDoc(typeName, field string, wire map[string]string) string {
	text := s.fields[typeName][field]
	if mine := s.sentencesOn(typeName, field); mine != "" {
		text = mine
	}
	return onTheWire(s.withoutSubject(text, field), wire)
}

// withoutSubject removes the name at the beginning of a Go comment, because the documents show it
// beside the text: "Name is a handle" becomes "A handle".
func (s *source) withoutSubject(text, name string) string {
	rest, begins := strings.CutPrefix(text, name+" ")
	if !begins || strings.HasPrefix(rest, "and ") {
		return text
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	first := goWord.FindString(rest)
	if slices.ContainsFunc(s.consts, func(k constant) bool { return k.value == first }) { // a word of the wire, such as stdout, stays in lower case
		return rest
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// sentencesOn returns the sentences of a comment that are about the field: those that begin with its
// name, and those after them until a sentence begins with the name of another field of the comment.
func (s *source) sentencesOn(typeName, field string) string {
	fields := s.fields[typeName]
	var mine []string
	subject := ""
	for _, sentence := range strings.SplitAfter(fields[field], ". ") {
		if first := goWord.FindString(sentence); fields[first] == fields[field] {
			subject = first
		}
		if subject == field {
			mine = append(mine, sentence)
		}
	}
	return strings.TrimSpace(strings.Join(mine, ""))
}

var goWord = regexp.MustCompile(`[A-Za-z0-9_]+`)

// onTheWire replaces Go names in text by those on the wire.
func onTheWire(text string, wire map[string]string) string {
	return goWord.ReplaceAllStringFunc(text, func(name string) string {
		if w := wire[name]; w != "" {
			return w
		}
		return name
	})
}
