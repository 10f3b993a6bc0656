package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
)

// openAPIText describes every route. Tests hold it against the router and against answers.
//
//go:embed openapi.json
var openAPIText []byte

// openAPI is the document with the version of this build in it, on one line.
func openAPI(version string) ([]byte, error) {
	var document map[string]json.RawMessage
	var info map[string]any
	err := json.Unmarshal(openAPIText, &document)
	if err == nil {
		err = json.Unmarshal(document["info"], &info)
	}
	if err != nil {
		return nil, fmt.Errorf("read openapi document: %w", err)
	}
	info["version"] = version
	if document["info"], err = json.Marshal(info); err != nil {
		return nil, fmt.Errorf("write openapi document: %w", err)
	}
	return json.Marshal(document)
}

// showOpenAPI is GET /api/v1/openapi.json.
func (s *Server) showOpenAPI(x *exchange) { x.json(http.StatusOK, s.openAPI) }
