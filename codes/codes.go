// Package codes holds the codes that waggle gives to warnings, errors and reasons: what each means, and what to do about
// it. A code keeps its meaning over versions; texts may change. docs/codes.md is written from it.
package codes

import (
	"cmp"
	"slices"
	"strings"
)

// Code is one of them.
type Code struct {
	// ID is WG and four digits.
	ID string `json:"code"`
	// Text is what the log, the answer or the error says; "by route" where it differs.
	Text    string `json:"text"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
	// Look is how to look deeper: an SQL query, or a command that begins with "waggle ". Empty where the line says it all.
	Look string `json:"look,omitempty"`
}

// All returns every code, in order.
func All() []Code { return slices.Clone(table) }

// Find understands WG0022, wg22 and 22.
func Find(name string) (Code, bool) {
	id := complete(name)
	i, found := slices.BinarySearchFunc(table, id, func(c Code, id string) int { return cmp.Compare(c.ID, id) })
	if !found {
		return Code{}, false
	}
	return table[i], true
}

// complete writes a code out.
func complete(name string) string {
	digits := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "WG")
	return "WG" + strings.Repeat("0", max(0, 4-len(digits))) + digits
}

// Near returns the codes before and after a name that is none, at most one each.
func Near(name string) []Code {
	i, _ := slices.BinarySearchFunc(table, complete(name), func(c Code, id string) int { return cmp.Compare(c.ID, id) })
	return slices.Clone(table[max(0, i-1):min(len(table), i+1)])
}

// Document is docs/codes.md.
func Document() string {
	var b strings.Builder
	b.WriteString(`# Codes

Every warning and error in the log, and every reason of ` + "`/health/ready`" + `, has a code in its field ` + "`code`" + `. Codes keep their
meaning over versions; texts may change. Debug and info lines have none: they ask for nothing. ` + "`waggle explain CODE`" + ` says
the same on the command line. This page is written from the table in ` + "`codes/table.go`" + `.

| Code | Text | Meaning | What to do |
|---|---|---|---|
`)
	for _, c := range table {
		text := c.Text
		if text != byRoute {
			text = "`" + text + "`"
		}
		b.WriteString("| " + c.ID + " | " + text + " | " + c.Meaning + " | " + c.Remedy + " |\n")
	}
	b.WriteString("\n## To look deeper\n\nQueries are for `psql`; commands are those of `waggle`.\n\n| Code | Query or command |\n|---|---|\n")
	for _, c := range table {
		if c.Look != "" {
			b.WriteString("| " + c.ID + " | `" + strings.ReplaceAll(c.Look, "|", `\|`) + "` |\n")
		}
	}
	return b.String()
}

// byRoute stands for texts that depend on what was asked for.
const byRoute = "by route"
