package api

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// description is the document as the tests of this package use it: every answer that any of them gets must stand in it.
type description struct {
	router   *router
	document map[string]any

	lock     sync.Mutex
	compiler *jsonschema.Compiler
}

const describedAt = "openapi.json"

var describe = sync.OnceValues(func() (*description, error) {
	d := &description{router: newRouter((&Server{}).routes()), compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal(openAPIText, &d.document); err != nil {
		return nil, err
	}
	closeObjects(d.document["paths"])
	closeObjects(d.document["components"])
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(describedAt, d.document)
})

// closeObjects forbids keys that the document does not know. The document itself does not: clients must take new ones.
func closeObjects(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, listed := v["properties"].(map[string]any); listed && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, below := range v {
			closeObjects(below)
		}
	case []any:
		for _, below := range v {
			closeObjects(below)
		}
	}
}

// documentPath writes a pattern of the router as the document has it.
func documentPath(pattern string) string {
	pieces := strings.Split(pattern, "/")
	for i, piece := range pieces {
		if name, ok := strings.CutPrefix(piece, ":"); ok {
			pieces[i] = "{" + name + "}"
		}
	}
	return strings.Join(pieces, "/")
}

// operationAt is the pointer to an operation.
func operationAt(method, path string) string {
	return "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + strings.ToLower(method)
}

// operation is what the document says of a route and method; nil if it says nothing.
func (d *description) operation(method, path string) map[string]any {
	methods, _ := d.document["paths"].(map[string]any)[path].(map[string]any)
	operation, _ := methods[strings.ToLower(method)].(map[string]any)
	return operation
}

// response is what the document says of one status of an operation, and where it says so; nil if it says nothing.
func (d *description) response(method, path string, status int) (response map[string]any, at string) {
	code := strconv.Itoa(status)
	responses, _ := d.operation(method, path)["responses"].(map[string]any)
	response, _ = responses[code].(map[string]any)
	if ref, ok := response["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/responses/")
		return d.document["components"].(map[string]any)["responses"].(map[string]any)[name].(map[string]any), ref
	}
	return response, operationAt(method, path) + "/responses/" + code
}

// schema compiles the schema of a JSON answer.
func (d *description) schema(at string) (*jsonschema.Schema, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.compiler.Compile(describedAt + at + "/content/application~1json/schema")
}

// RequireDescribed holds an answer against the document: its status, type, and, for JSON, every key. It returns the
// operation, as "GET /health"; nothing for what is no route, and for HEAD.
func RequireDescribed(t testing.TB, method, target string, w *httptest.ResponseRecorder) string {
	t.Helper()
	d, err := describe()
	require.NoError(t, err)
	path, _, _ := strings.Cut(target, "?")
	r, handle, _ := d.router.find(method, path)
	if handle == nil || r.stub || method == http.MethodHead {
		return ""
	}
	path = documentPath(r.pattern)
	where := method + " " + path
	response, at := d.response(method, path, w.Code)
	require.NotNil(t, response, "%s may not answer %d: %s", where, w.Code, w.Body)
	content, _ := response["content"].(map[string]any)
	if w.Body.Len() == 0 {
		require.Empty(t, content, "%s answers %d without a body", where, w.Code)
		return where
	}
	kind, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	require.NoError(t, err, where)
	require.Contains(t, content, kind, "%s %d: %s", where, w.Code, w.Body)
	if kind != "application/json" {
		return where
	}
	schema, err := d.schema(at)
	require.NoError(t, err, where)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	require.NoError(t, err, "%s: %s", where, w.Body)
	require.NoError(t, schema.Validate(value), "%s %d: %s", where, w.Code, w.Body)
	return where
}

// RequireRequestDescribed holds the body of a good request against the document.
func RequireRequestDescribed(t testing.TB, method, path, body string) {
	t.Helper()
	d, err := describe()
	require.NoError(t, err)
	request, _ := d.operation(method, path)["requestBody"].(map[string]any)
	if body == "" {
		require.NotEqual(t, true, request["required"], "%s %s without a body", method, path)
		return
	}
	require.NotNil(t, request, "%s %s with a body", method, path)
	schema, err := d.schema(operationAt(method, path) + "/requestBody")
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	require.NoError(t, err, body)
	require.NoError(t, schema.Validate(value), "%s %s: %s", method, path, body)
}
