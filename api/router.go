package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

type handler func(*exchange)

// route is one path of the contract. Its pattern is its name in metrics and logs.
type route struct {
	pattern string
	// scoped routes belong to a tenant.
	scoped bool
	// stub routes are not there: they keep names with slashes from being seen where clients look for what has never been.
	stub    bool
	methods map[string]handler
	allow   string

	// A pattern with names falls apart at its names: fixed[0] name fixed[1] name … The last piece is empty when the
	// pattern ends with a name.
	fixed []string
}

// unmatched stands for every path that is no route.
var unmatched = &route{pattern: "unmatched"}

// router finds the route of a path. net/http's own would clean paths, redirect, and answer 404 where the contract
// has 405. Routes without names are looked up whole; routes with names are tried in order.
type router struct {
	static map[string]*route
	named  []*route
}

func newRouter(routes []*route) *router {
	t := &router{static: make(map[string]*route)}
	for _, r := range routes {
		r.allow = strings.Join(slices.Sorted(maps.Keys(r.methods)), ", ")
		if !strings.Contains(r.pattern, ":") {
			t.static[r.pattern] = r
			continue
		}
		r.fixed = splitPattern(r.pattern)
		t.named = append(t.named, r)
	}
	return t
}

// splitPattern cuts /a/:name/b/:name into "/a/", "/b/", "".
func splitPattern(pattern string) []string {
	var fixed []string
	for {
		before, rest, found := strings.Cut(pattern, ":")
		fixed = append(fixed, before)
		if !found {
			return fixed
		}
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		pattern = rest[end:]
	}
}

// find returns the route that the path means, the handler for the method (nil if the route does not have it) and the
// decoded names. Where several patterns match, because names may hold slashes, the first one that has the method
// wins; if a name would be empty there, the path means nothing.
func (t *router) find(method, path string) (*route, handler, []string) {
	if r, ok := t.static[path]; ok {
		return r, r.methods[method], nil
	}
	best := unmatched
	for _, r := range t.named {
		names, ok := r.match(path)
		switch handle := r.methods[method]; {
		case !ok:
		case handle == nil:
			if best == unmatched && !slices.Contains(names, "") {
				best = r
			}
		case slices.Contains(names, ""):
			return unmatched, nil, nil
		default:
			return r, handle, names
		}
	}
	return best, nil, nil
}

// match cuts the names out of a path. The fixed words are sought from the right: what they leave over to the left
// belongs to a name, slashes and all.
func (r *route) match(path string) ([]string, bool) {
	rest, ok := strings.CutPrefix(path, r.fixed[0])
	if !ok {
		return nil, false
	}
	last := len(r.fixed) - 1
	if rest, ok = strings.CutSuffix(rest, r.fixed[last]); !ok {
		return nil, false
	}
	names := make([]string, last)
	for i := last - 1; i > 0; i-- {
		at := strings.LastIndex(rest, r.fixed[i])
		if at < 0 {
			return nil, false
		}
		names[i] = rest[at+len(r.fixed[i]):]
		rest = rest[:at]
	}
	names[0] = rest
	for i, name := range names {
		names[i] = percentDecode(name, false)
	}
	return names, true
}

// requestPath is the path as the client sent it. URL.EscapedPath will not do: it forgets which slashes were encoded
// as soon as the path holds a raw character that it would have encoded itself, a quote for instance.
func requestPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") { // the absolute form that proxies get, or a request made by hand
		return r.URL.EscapedPath()
	}
	return path
}

// percentDecode undoes percent-encoding once. Sequences that are none stay as they are. In query strings, and only
// there, + means space.
func percentDecode(text string, plusIsSpace bool) string {
	if !strings.Contains(text, "%") && (!plusIsSpace || !strings.Contains(text, "+")) {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+' && plusIsSpace:
			decoded = append(decoded, ' ')
		case c == '%' && i+2 < len(text) && hexDigit(text[i+1]) >= 0 && hexDigit(text[i+2]) >= 0:
			decoded = append(decoded, byte(hexDigit(text[i+1])<<4|hexDigit(text[i+2])))
			i += 2
		default:
			decoded = append(decoded, c)
		}
	}
	return string(decoded)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
