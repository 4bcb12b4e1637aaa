package spec_test

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"regexp"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// sentinels pairs each code with its exported error.
var sentinels = map[spec.Code]error{
	spec.CodeInvalid: spec.ErrInvalid, spec.CodeInvalidPath: spec.ErrInvalidPath, spec.CodeNotFound: spec.ErrNotFound,
	spec.CodeFileNotFound: spec.ErrFileNotFound, spec.CodeExists: spec.ErrExists, spec.CodeIsDirectory: spec.ErrIsDirectory,
	spec.CodeNotDirectory: spec.ErrNotDirectory, spec.CodeNotRegular: spec.ErrNotRegular, spec.CodeNotReplaceable: spec.ErrNotReplaceable,
	spec.CodeNotWritable: spec.ErrNotWritable, spec.CodeTooLarge: spec.ErrTooLarge, spec.CodeNoSpace: spec.ErrNoSpace,
	spec.CodePermission: spec.ErrPermission, spec.CodeUnsupported: spec.ErrUnsupported, spec.CodeSpecMismatch: spec.ErrSpecMismatch,
	spec.CodeStaleOwner: spec.ErrStaleOwner, spec.CodeUnavailable: spec.ErrUnavailable, spec.CodeUnknownOutcome: spec.ErrUnknownOutcome,
	spec.CodeStartFailed: spec.ErrStartFailed, spec.CodeInternal: spec.ErrInternal,
}

// declared returns the values of all constants of type Code in the source.
func declared(t *testing.T) []spec.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []spec.Code
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		name, ok := v.Type.(*ast.Ident)
		lit, isLit := v.Values[0].(*ast.BasicLit)
		if ok && isLit && name.Name == "Code" {
			out = append(out, spec.Code(constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))))
		}
		return true
	})
	return out
}

// invalidParams is JSON-RPC's own code; whatever is wrong with a request has it.
const invalidParams = -32602

// The table has one row for each code, at most twenty, and no two rows share what
// tells them apart.
func TestCodeTableIsTotalAndUnique(t *testing.T) {
	codes, rows := declared(t), spec.Codes()
	if len(codes) != len(rows) || len(rows) > 20 || len(rows) != len(sentinels) {
		t.Fatalf("%d codes are declared, %d rows, %d sentinels; at most 20", len(codes), len(rows), len(sentinels))
	}
	lower := regexp.MustCompile(`^[a-z][a-z ]*$`)
	seen := map[any]spec.Code{}
	for i, row := range rows {
		if row.Code != codes[i] || !row.Code.Known() || row.Code.Info() != row || row.Code.String() != string(row.Code) {
			t.Errorf("row %d is %+v, the code declared there is %q", i, row, codes[i])
		}
		type exit int
		type mcp int
		keys := []any{row.Code, row.Text, exit(row.ExitCode)}
		if row.MCPError != invalidParams {
			keys = append(keys, mcp(row.MCPError))
		}
		for _, key := range keys {
			if other, twice := seen[key]; twice {
				t.Errorf("%s and %s share %v", row.Code, other, key)
			}
			seen[key] = row.Code
		}
		if !lower.MatchString(row.Text) || row.HTTPStatus < 400 || row.HTTPStatus > 599 || row.ExitCode < 2 || row.ExitCode > 127 || row.MCPError >= 0 {
			t.Errorf("row %+v is out of range", row)
		}
		if row.ExitCode == 125 || row.ExitCode == 126 {
			t.Errorf("%s uses an exit code that run and exec have given away", row.Code)
		}
		err := &spec.Error{Code: row.Code}
		for code, sentinel := range sentinels {
			if errors.Is(err, sentinel) != (code == row.Code) {
				t.Errorf("an error with code %s matches the sentinel of %s: %v", row.Code, code, errors.Is(err, sentinel))
			}
		}
	}
}

// The numbers are stable: what scripts and clients have learned stays true.
func TestCodesAreStable(t *testing.T) {
	first, last := spec.Codes()[0], spec.Codes()[19]
	if first.Code != "invalid" || first.ExitCode != 2 || last.Code != "internal" || last.HTTPStatus != 500 {
		t.Errorf("the table begins with %+v and ends with %+v", first, last)
	}
	for code, exit := range map[spec.Code]int{spec.CodeNotFound: 4, spec.CodeUnsupported: 15, spec.CodeUnavailable: 18, spec.CodeStartFailed: 127} {
		if got := code.Info().ExitCode; got != exit {
			t.Errorf("%s has exit code %d, want %d", code, got, exit)
		}
	}
	rows := spec.Codes()
	rows[0].Text = "changed"
	if spec.Codes()[0].Text == "changed" {
		t.Error("a caller can change the table")
	}
}

// A newer peer's code is never taken for success.
func TestUnknownCodeIsInternal(t *testing.T) {
	for _, c := range []spec.Code{"", "ok", "brand_new"} {
		if c.Known() || c.Info().Code != spec.CodeInternal {
			t.Errorf("code %q: known %v, row %+v", c, c.Known(), c.Info())
		}
		if err := (&spec.Error{Code: c}); !errors.Is(err, spec.ErrInternal) {
			t.Errorf("an error with code %q is not internal", c)
		}
	}
}
