package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"spectap/collector/columns"
)

// The README's table of columns is columns.Row: names and types of its schema, and
// the comments of its source.
func TestReadmeColumns(t *testing.T) {
	var b strings.Builder
	b.WriteString("| column | type | meaning |\n|---|---|---|\n")
	comments := rowComments(t)
	for _, field := range parquet.SchemaOf(columns.Row{}).Fields() {
		comment := comments[field.Name()]
		if comment == "" {
			t.Errorf("column %s has no comment", field.Name())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field.Name(), columnType(t, field), comment)
	}
	generated(t, "columns", b.String())
}

// rowComments are the comments of Row's fields by the names of their columns.
func rowComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "collector", "columns", "row.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("parquet")
		name, _, _ := strings.Cut(tag, ",")
		comments[name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		return true
	})
	return comments
}

// columnType is a column's type as the README says it.
func columnType(t *testing.T, node parquet.Node) string {
	t.Helper()
	if !node.Leaf() {
		return "list of " + columnType(t, node.Fields()[0].Fields()[0])
	}
	logical := ""
	if kind := node.Type().LogicalType(); kind != nil {
		logical = kind.String()
	}
	switch {
	case logical == "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)":
		return "timestamp (UTC, µs)"
	case logical == "STRING" || logical == "DATE":
		return strings.ToLower(logical)
	case logical == "INT(64,true)":
		return "int64"
	case logical == "" && node.Type().Kind() == parquet.Double:
		return "double"
	case logical == "" && node.Type().Kind() == parquet.Boolean:
		return "boolean"
	}
	t.Fatalf("cannot name the type %s (%s) of a column", node.Type(), logical)
	return ""
}
