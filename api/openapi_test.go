package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readDocument is what GET /api/v1/openapi.json answers.
func readDocument(t *testing.T) map[string]any {
	t.Helper()
	f := setup(t)
	w := f.do("GET", "/api/v1/openapi.json", "")
	require.Equal(t, http.StatusOK, w.Code)
	var document map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &document))
	return document
}

func TestOpenAPIIsOneDocument(t *testing.T) {
	t.Parallel()
	document := readDocument(t)
	require.Equal(t, "3.1.0", document["openapi"])
	require.Equal(t, "0.1.0", document["info"].(map[string]any)["version"])
	tags := map[string]bool{}
	for _, tag := range document["tags"].([]any) {
		tags[tag.(map[string]any)["name"].(string)] = true
	}
	ids := map[string]bool{}
	for path, methods := range document["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			o := operation.(map[string]any)
			where := method + " " + path
			id := o["operationId"].(string)
			require.False(t, ids[id], "%s: operationId %s stands twice", where, id)
			ids[id] = true
			require.NotEmpty(t, o["summary"], where)
			require.True(t, tags[o["tags"].([]any)[0].(string)], where)
			require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(o["responses"].(map[string]any))), func(code string) bool {
				return code[0] == '2' || code == "501"
			}), where)
			var named []string
			parameters, _ := o["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "path" {
					named = append(named, "{"+p["name"].(string)+"}")
				}
			}
			for _, name := range named {
				require.Contains(t, path, name, where)
			}
			require.Equal(t, strings.Count(path, "{"), len(named), where)
		}
	}
	// Every reference leads somewhere.
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				at := any(document)
				for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					at = at.(map[string]any)[name]
				}
				require.NotNil(t, at, ref)
			}
			for _, below := range v {
				walk(below)
			}
		case []any:
			for _, below := range v {
				walk(below)
			}
		}
	}
	walk(document)
}

// What is served stands in the document, and the other way round.
func TestOpenAPIKnowsEveryRoute(t *testing.T) {
	t.Parallel()
	served := map[string]bool{}
	for _, r := range setup(t).server.routes() {
		if r.stub {
			continue
		}
		for method := range r.methods {
			if method != http.MethodHead {
				served[method+" "+documentPath(r.pattern)] = true
			}
		}
	}
	described := map[string]bool{}
	scoped := map[string]bool{}
	for path, methods := range readDocument(t)["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			where := strings.ToUpper(method) + " " + path
			described[where] = true
			content, err := json.Marshal(operation)
			require.NoError(t, err)
			scoped[where] = bytes.Contains(content, []byte("#/components/parameters/tenant"))
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(described)))
	for _, r := range setup(t).server.routes() {
		for method := range r.methods {
			if said, known := scoped[method+" "+documentPath(r.pattern)]; known {
				require.Equal(t, r.scoped, said, "the tenant of %s %s", method, r.pattern)
			}
		}
	}
}

// Every schema of the document compiles.
func TestOpenAPISchemasAreSchemas(t *testing.T) {
	t.Parallel()
	d, err := describe()
	require.NoError(t, err)
	for path, methods := range d.document["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			o := operation.(map[string]any)
			for code := range o["responses"].(map[string]any) {
				status, err := strconv.Atoi(code)
				require.NoError(t, err)
				response, at := d.response(method, path, status)
				content, _ := response["content"].(map[string]any)
				if content["application/json"] != nil {
					_, err := d.schema(at)
					require.NoError(t, err, "%s %s %s", method, path, code)
				}
			}
			if o["requestBody"] != nil {
				_, err := d.schema(operationAt(method, path) + "/requestBody")
				require.NoError(t, err, "%s %s", method, path)
			}
		}
	}
}
