package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const maxLines = 500

func TestFilesAreSmall(t *testing.T) {
	sourceFiles(t, func(file string) {
		switch {
		case strings.HasPrefix(file, "tests/"), strings.HasSuffix(file, "_test.go"), strings.Contains(file, "/testdata/"):
			return
		case !slices.Contains([]string{".go", ".md", ".sh", ".toml", ""}, path.Ext(file)):
			return
		}
		if n := strings.Count(read(t, file), "\n"); n > maxLines {
			t.Errorf("%s: %d lines, at most %d", file, n, maxLines)
		}
	})
}

func TestPackagesHaveComments(t *testing.T) {
	for _, goos := range systems {
		for _, p := range packages(t, goos) {
			if p.ours() && len(p.GoFiles) > 0 && p.Doc == "" {
				t.Errorf("%s: %s: has no package comment", goos, p.rel())
			}
		}
	}
}

// TestPackagesHaveSpeakingNames refuses rooms that collect whatever does not fit elsewhere.
func TestPackagesHaveSpeakingNames(t *testing.T) {
	bad := []string{"util", "utils", "common", "helper", "helpers", "manager", "core", "misc", "base", "shared", "types"}
	for _, p := range packages(t, "linux") {
		if p.ours() && slices.Contains(bad, path.Base(p.ImportPath)) {
			t.Errorf("%s: a package is named after what it is about", p.rel())
		}
	}
}

// goFiles parses every Go file that is compiled into a program.
func goFiles(t *testing.T, visit func(file string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			return
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(file)), read(t, file), parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %s", file, err)
			return
		}
		visit(file, fset, f)
	})
}

func TestExportedNamesHaveComments(t *testing.T) {
	goFiles(t, func(file string, fset *token.FileSet, f *ast.File) {
		complain := func(name *ast.Ident) {
			t.Errorf("%s:%d: %s: exported without a comment", file, fset.Position(name.Pos()).Line, name.Name)
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !isStandardMethod(d) {
					complain(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
							complain(s.Name)
						}
					case *ast.ValueSpec: // a comment on the group is enough
						for _, name := range s.Names {
							if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
								complain(name)
							}
						}
					}
				}
			}
		}
	})
}

// exportedReceiver reports whether d can be called from outside its package at all.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	switch r := receiver.(type) {
	case *ast.IndexExpr:
		receiver = r.X
	case *ast.IndexListExpr:
		receiver = r.X
	}
	name, ok := receiver.(*ast.Ident)
	return !ok || name.IsExported()
}

// isStandardMethod reports whether everybody knows what the method does.
func isStandardMethod(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Len", "Less", "Swap"}, d.Name.Name)
}

// TestGoroutinesAreCounted: a package that starts goroutines proves with goleak
// that none is left behind.
func TestGoroutinesAreCounted(t *testing.T) {
	starts, proves := map[string]string{}, map[string]bool{}
	goFiles(t, func(file string, _ *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[path.Dir(file)] = file
			case *ast.CallExpr: // WaitGroup.Go and errgroup.Group.Go
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
					starts[path.Dir(file)] = file
				}
			}
			return true
		})
	})
	sourceFiles(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") && strings.Contains(read(t, file), "goleak.VerifyTestMain(") {
			proves[path.Dir(file)] = true
		}
	})
	for dir, file := range starts {
		if !proves[dir] && !forTests(dir) {
			t.Errorf("%s: starts goroutines (%s) and has no goleak.VerifyTestMain", dir, path.Base(file))
		}
	}
}
