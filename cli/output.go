package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Output is the flag of every command that answers a question.
type Output struct {
	Output string `enum:"text,json" default:"text" help:"text or json."`
}

// print writes v as indented JSON, or calls text.
func (o *Output) print(w io.Writer, v any, text func(io.Writer)) error {
	if o.Output == "json" {
		return writeJSON(w, v, "  ")
	}
	text(w)
	return nil
}

// writeJSON writes v and a newline, without the escapes that are meant for HTML.
func writeJSON(w io.Writer, v any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// table writes rows in aligned columns; the first row is the heading.
func table(w io.Writer, rows [][]string) {
	columns := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	columns.Flush()
}

func number(n int64) string { return fmt.Sprintf("%d", n) }

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// orDash keeps columns of a table apart where a cell would be empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shellWord quotes text for a POSIX shell where it needs to be.
func shellWord(text string) string {
	plain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@+%", r))
	})
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
