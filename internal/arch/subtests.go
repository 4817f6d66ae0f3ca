package arch

import "go/ast"

// subtests returns the literals that name subtests at a node: the argument of a Run, and in a
// table the field or the key that is called name.
func subtests(n ast.Node) []*ast.BasicLit {
	switch n := n.(type) {
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if ok && sel.Sel.Name == "Run" && len(n.Args) == 2 {
			return literals(n.Args[0])
		}
	case *ast.KeyValueExpr:
		if isName(n.Key) {
			return literals(n.Value)
		}
	case *ast.RangeStmt:
		table, ok := n.X.(*ast.CompositeLit)
		if ok && isName(n.Key) {
			return literals(keys(table)...)
		}
	case *ast.CompositeLit:
		if list, ok := n.Type.(*ast.ArrayType); ok && named(list.Elt) {
			return literals(firsts(n)...)
		}
	}
	return nil
}

// isName reports whether an expression is the identifier name.
func isName(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "name"
}

// named reports whether a type is a struct whose first field is called name.
func named(t ast.Expr) bool {
	s, ok := t.(*ast.StructType)
	if !ok || len(s.Fields.List) == 0 || len(s.Fields.List[0].Names) == 0 {
		return false
	}
	return isName(s.Fields.List[0].Names[0])
}

// keys returns the keys of a map literal.
func keys(table *ast.CompositeLit) (es []ast.Expr) {
	for _, e := range table.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			es = append(es, kv.Key)
		}
	}
	return es
}

// firsts returns the first field of every element of a table without keys.
func firsts(table *ast.CompositeLit) (es []ast.Expr) {
	for _, e := range table.Elts {
		if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 0 {
			es = append(es, row.Elts[0])
		}
	}
	return es
}

// literals returns those of the expressions that are basic literals.
func literals(exprs ...ast.Expr) (lits []*ast.BasicLit) {
	for _, e := range exprs {
		if lit, ok := e.(*ast.BasicLit); ok {
			lits = append(lits, lit)
		}
	}
	return lits
}
