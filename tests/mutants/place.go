//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A change takes lines out of one declaration of a package, and puts others in their stead.
// It names no file, no line number and no indent, so it survives when code is moved.
type change struct {
	folder string // of the package
	name   string // of the declaration; of a method: TYPE.METHOD
	lines  []line
}

// A line of a change. Only its code counts, not its indent, nor a comment behind it.
type line struct {
	kind byte // ' ' stays, '-' goes, '+' is new
	text string
}

// find finds the Go file, among those built for this system, that has the declaration, and the
// bytes from its first line to the end of its last.
func (c change) find(tree string) (file string, text []byte, from, to int, err error) {
	paths, err := filepath.Glob(filepath.Join(tree, c.folder, "*.go"))
	if err != nil {
		return "", nil, 0, 0, err
	}
	for _, p := range paths {
		dir, base := filepath.Split(p)
		if built, err := build.Default.MatchFile(dir, base); err != nil {
			return "", nil, 0, 0, err
		} else if !built || strings.HasSuffix(base, "_test.go") {
			continue
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return "", nil, 0, 0, err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, p, src, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, 0, 0, err
		}
		for _, d := range parsed.Decls {
			if slices.Contains(declared(d), c.name) {
				f := files.File(d.Pos())
				return p, src, f.Offset(f.LineStart(f.Line(d.Pos()))), f.Offset(d.End()), nil
			}
		}
	}
	return "", nil, 0, 0, fmt.Errorf("%s has no %s", c.folder, c.name)
}

// declared returns the names that a declaration declares.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		return []string{receiver.(*ast.Ident).Name + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// apply makes the change in a tree, and returns what undoes it.
func (c change) apply(tree string) (undo func() error, err error) {
	file, text, from, to, err := c.find(tree)
	if err != nil {
		return nil, err
	}
	have := strings.Split(string(text[from:to]), "\n")
	var want []string // what must be there
	for _, l := range c.lines {
		if l.kind != '+' {
			want = append(want, l.text)
		}
	}
	at := -1
	for i := range len(have) - len(want) + 1 {
		if !slices.EqualFunc(have[i:i+len(want)], want, func(h, w string) bool { return code(h) == code(w) }) {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("%s, in %s: these lines are there twice:\n%s", c.name, c.folder, strings.Join(want, "\n"))
		}
		at = i
	}
	if at < 0 {
		return nil, fmt.Errorf("%s, in %s: these lines are not there:\n%s", c.name, c.folder, strings.Join(want, "\n"))
	}
	changed, next := slices.Clone(have[:at]), at
	for _, l := range c.lines {
		switch l.kind {
		case '+':
			changed = append(changed, l.text)
			continue
		case ' ':
			changed = append(changed, have[next])
		}
		next++
	}
	changed = append(changed, have[next:]...)
	broken := slices.Concat(text[:from], []byte(strings.Join(changed, "\n")), text[to:])
	broken, err = withoutUnused(broken)
	if err != nil {
		return nil, fmt.Errorf("%s, in %s: %w", c.name, c.folder, err)
	}
	return func() error { return os.WriteFile(file, text, 0o644) }, os.WriteFile(file, broken, 0o644)
}

// code is a line without its indent, and without what it says to people.
func code(line string) string {
	line, _, _ = strings.Cut(line, " // ")
	return strings.TrimSpace(line)
}

// withoutUnused takes out the imports of a Go file that a change has left without use.
func withoutUnused(src []byte) ([]byte, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, i := range slices.Backward(parsed.Imports) {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		name := path.Base(imported)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(imported))
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		if name != "_" && !used[name] {
			f := files.File(i.Pos())
			src = slices.Delete(src, f.Offset(i.Pos()), f.Offset(i.End()))
		}
	}
	return src, nil
}

// readChanges reads the part of a break that says where it is made, and how:
//
//	in FOLDER NAME
//	 a line that stays
//	-a line that goes
//	+a line that is new
//
// any number of times.
func readChanges(text string) (all []change, err error) {
	for l := range bytes.Lines([]byte(text)) {
		words := string(bytes.TrimRight(l, "\n"))
		if where, ok := strings.CutPrefix(words, "in "); ok {
			folder, name, ok := strings.Cut(where, " ")
			if !ok {
				return nil, fmt.Errorf("what is %q?", words)
			}
			all = append(all, change{folder: folder, name: name})
			continue
		}
		if strings.TrimSpace(words) == "" {
			words = " "
		}
		if len(all) == 0 || !strings.ContainsRune(" -+", rune(words[0])) {
			return nil, fmt.Errorf("what is %q?", words)
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, line{words[0], strings.TrimSpace(words[1:])})
	}
	for i := range all { // an empty line before the next
		c := &all[i]
		if n := len(c.lines); n > 0 && c.lines[n-1] == (line{' ', ""}) {
			c.lines = c.lines[:n-1]
		}
		if !slices.ContainsFunc(c.lines, func(l line) bool { return l.kind != ' ' }) {
			err = errors.Join(err, fmt.Errorf("nothing changes in %s", c.name))
		}
	}
	if len(all) == 0 {
		err = errors.New("it does not say what changes")
	}
	return all, err
}
