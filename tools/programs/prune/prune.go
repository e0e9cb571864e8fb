// Command prune takes parts out of a copy of a Go module, so that a program is built without the
// dependencies that no test needs.
//
//	prune RULES PACKAGE-PREFIX DIRECTORY
//
// DIRECTORY holds the module PACKAGE-PREFIX and is changed in place. RULES has one rule a line:
//
//	PACKAGE import REGEXP    the package's files import nothing any more whose path REGEXP matches
//	PACKAGE file NAME        the file goes, with everything it declares
//
// An element of a list or a map, a case, an if without else, an assignment to an element, a call for
// its effect, and else a whole declaration goes when it names something that is gone, until nothing
// does. A rule that matches nothing is an error: the
// module has changed since the rule was written.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

type rule struct {
	text    string
	imports *regexp.Regexp
	file    string
	matched bool
}

type source struct {
	path    string
	syntax  *ast.File
	gone    map[string]bool // names of imports
	changed bool
}

type pruner struct {
	files []*source
	gone  map[string]bool // package-level names
}

func fail(arguments ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"prune:"}, arguments...)...)
	os.Exit(1)
}

func readRules(file, module string) map[string][]*rule {
	text, err := os.ReadFile(file)
	if err != nil {
		fail(err)
	}
	rules := map[string][]*rule{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 3 {
			fail("not a rule:", lines.Text())
		}
		if words[0] != module && !strings.HasPrefix(words[0], module+"/") {
			continue
		}
		made := &rule{text: lines.Text()}
		switch words[1] {
		case "import":
			made.imports = regexp.MustCompile("^(?:" + words[2] + ")$")
		case "file":
			made.file = words[2]
		default:
			fail("not a rule:", lines.Text())
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(words[0], module), "/")
		rules[folder] = append(rules[folder], made)
	}
	return rules
}

// importName is the name that a file calls an import by. Without an alias it is the last element
// of the path that is not a version, without "go-".
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	full, _ := strconv.Unquote(spec.Path.Value)
	name := path.Base(full)
	if regexp.MustCompile(`^v\d+$`).MatchString(name) {
		name = path.Base(path.Dir(full))
	}
	return strings.TrimPrefix(name, "go-")
}

// names says whether the node refers to something that is gone.
func (p *pruner) names(file *source, node ast.Node) bool {
	found := false
	ast.Inspect(node, func(n ast.Node) bool {
		switch at := n.(type) {
		case *ast.SelectorExpr:
			if left, ok := at.X.(*ast.Ident); ok && file.gone[left.Name] {
				found = true
			}
			found = found || p.names(file, at.X)
			return false // the name on its right is no package's
		case *ast.KeyValueExpr:
			if _, field := at.Key.(*ast.Ident); field {
				found = found || p.names(file, at.Value)
				return false
			}
		case *ast.Field:
			if at.Type != nil {
				found = found || p.names(file, at.Type)
			}
			return false
		case *ast.Ident:
			found = found || p.gone[at.Name]
		}
		return !found
	})
	return found
}

// optional says whether a function can do without the statement.
func optional(statement ast.Stmt) bool {
	switch at := statement.(type) {
	case *ast.CaseClause, *ast.ExprStmt:
		return true
	case *ast.IfStmt:
		return at.Else == nil
	case *ast.AssignStmt:
		_, element := at.Lhs[0].(*ast.IndexExpr)
		return element
	}
	return false
}

// shrink takes elements of lists and maps, and statements, out of the node. Result: whether there
// were any.
func (p *pruner) shrink(file *source, node ast.Node) bool {
	var inner []ast.Node // after what they are in
	ast.Inspect(node, func(n ast.Node) bool {
		switch at := n.(type) {
		case *ast.CompositeLit:
			switch at.Type.(type) { // a struct without one of its fields would be another struct
			case *ast.MapType, *ast.ArrayType:
				inner = append(inner, n)
			}
		case *ast.BlockStmt:
			inner = append(inner, n)
		}
		return true
	})
	shrunk := false
	for i := len(inner) - 1; i >= 0; i-- {
		switch at := inner[i].(type) {
		case *ast.CompositeLit:
			var kept []ast.Expr
			for _, element := range at.Elts {
				if !p.names(file, element) {
					kept = append(kept, element)
				}
			}
			shrunk = shrunk || len(kept) != len(at.Elts)
			at.Elts = kept
		case *ast.BlockStmt:
			var kept []ast.Stmt
			for _, statement := range at.List {
				if !optional(statement) || !p.names(file, statement) {
					kept = append(kept, statement)
				}
			}
			shrunk = shrunk || len(kept) != len(at.List)
			at.List = kept
		}
	}
	return shrunk
}

func (p *pruner) forget(declaration ast.Decl) {
	switch at := declaration.(type) {
	case *ast.FuncDecl:
		if at.Recv == nil && at.Name.Name != "init" {
			p.gone[at.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range at.Specs {
			p.forgetSpec(spec)
		}
	}
}

func (p *pruner) forgetSpec(spec ast.Spec) {
	switch at := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range at.Names {
			if name.Name != "_" {
				p.gone[name.Name] = true
			}
		}
	case *ast.TypeSpec:
		p.gone[at.Name.Name] = true
	}
}

// pass takes out what names something that is gone. Result: whether there was any.
func (p *pruner) pass(file *source) bool {
	changed := false
	var kept []ast.Decl
	for _, declaration := range file.syntax.Decls {
		general, isGeneral := declaration.(*ast.GenDecl)
		if isGeneral && general.Tok == token.IMPORT {
			kept = append(kept, declaration)
			continue
		}
		if p.names(file, declaration) && p.shrink(file, declaration) {
			changed = true
		}
		if !p.names(file, declaration) {
			kept = append(kept, declaration)
			continue
		}
		changed = true
		if !isGeneral {
			p.forget(declaration)
			continue
		}
		var specs []ast.Spec
		for _, spec := range general.Specs {
			if p.names(file, spec) {
				p.forgetSpec(spec)
			} else {
				specs = append(specs, spec)
			}
		}
		if general.Specs = specs; len(specs) > 0 {
			kept = append(kept, declaration)
		}
	}
	file.syntax.Decls = kept
	return changed
}

// dropImports takes out the imports that a rule names or that nothing uses any more.
func dropImports(file *source, dropped func(full string) bool, unused bool) {
	used := map[string]bool{}
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if left, ok := selector.X.(*ast.Ident); ok {
				used[left.Name] = true
			}
		}
		return true
	})
	for _, declaration := range file.syntax.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.IMPORT {
			continue
		}
		var kept []ast.Spec
		for _, spec := range general.Specs {
			at := spec.(*ast.ImportSpec)
			full, _ := strconv.Unquote(at.Path.Value)
			name := importName(at)
			switch {
			case dropped(full):
				file.changed = true
				file.gone[name] = true
			case unused && name != "_" && name != "." && !used[name]:
			default:
				kept = append(kept, spec)
			}
		}
		general.Specs = kept
	}
	var kept []ast.Decl
	for _, declaration := range file.syntax.Decls {
		if general, ok := declaration.(*ast.GenDecl); !ok || len(general.Specs) > 0 {
			kept = append(kept, declaration)
		}
	}
	file.syntax.Decls = kept
}

func prunePackage(folder string, rules []*rule) {
	p := pruner{gone: map[string]bool{}}
	positions := token.NewFileSet()
	paths, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			fail(err)
		}
		syntax, err := parser.ParseFile(positions, name, text, 0)
		if err != nil {
			fail(err)
		}
		file := &source{path: name, syntax: syntax, gone: map[string]bool{}}
		removed := false
		for _, r := range rules {
			if r.file == filepath.Base(name) {
				r.matched, removed = true, true
			}
		}
		if removed {
			for _, declaration := range syntax.Decls {
				p.forget(declaration)
			}
			if err := os.Remove(name); err != nil {
				fail(err)
			}
			continue
		}
		dropImports(file, func(full string) bool {
			for _, r := range rules {
				if r.imports != nil && r.imports.MatchString(full) {
					r.matched = true
					return true
				}
			}
			return false
		}, false)
		p.files = append(p.files, file)
	}
	for again := true; again; {
		again = false
		for _, file := range p.files {
			if p.pass(file) {
				file.changed, again = true, true
			}
		}
	}
	for _, file := range p.files {
		if file.changed {
			p.write(file, positions)
		}
	}
}

func (p *pruner) write(file *source, positions *token.FileSet) {
	dropImports(file, func(string) bool { return false }, true)
	old, err := os.ReadFile(file.path)
	if err != nil {
		fail(err)
	}
	// The comments above the package clause can be build constraints; the others are gone.
	text := bytes.NewBuffer(bytes.Clone(old[:positions.Position(file.syntax.Package).Offset]))
	if err := format.Node(text, positions, file.syntax); err != nil {
		fail(file.path, err)
	}
	if err := os.WriteFile(file.path, text.Bytes(), 0o644); err != nil {
		fail(err)
	}
}

func main() {
	if len(os.Args) != 4 {
		fail("say RULES PACKAGE-PREFIX DIRECTORY")
	}
	for folder, rules := range readRules(os.Args[1], os.Args[2]) {
		prunePackage(filepath.Join(os.Args[3], folder), rules)
		for _, r := range rules {
			if !r.matched {
				fail("this rule matches nothing:", r.text)
			}
		}
	}
}
