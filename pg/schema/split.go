package schema

import (
	"fmt"
	"strings"
)

// Statement is one SQL statement of a file, without its semicolon and without comments around it.
type Statement struct {
	Text string
	// Line is where it begins in the file, from 1.
	Line int
}

// Split cuts a script at the semicolons that end statements. It knows the lexical rules of PostgreSQL (manual, section 4.1)
// with standard_conforming_strings on: quoted identifiers and strings, E” strings with backslashes, dollar quotes, line
// comments and nested block comments. It does not know SQL-standard function bodies (BEGIN ATOMIC … END): a schema of tables
// has none. psql's backslash commands are not SQL and are not known either.
func Split(script string) ([]Statement, error) {
	s := splitter{script: script, line: 1, begin: -1}
	for s.at < len(script) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.finish()
	return s.statements, nil
}

type splitter struct {
	script     string
	at, line   int
	begin      int // where the statement's first token is, or -1
	beginLine  int
	end        int // behind its last token
	statements []Statement
}

// step consumes one token, comment, or run of space.
func (s *splitter) step() error {
	rest := s.script[s.at:]
	switch c := rest[0]; {
	case c == ';':
		s.finish()
		s.at++
	case strings.HasPrefix(rest, "--"):
		s.skip(lineEnd(rest))
	case strings.HasPrefix(rest, "/*"):
		length, ok := blockComment(rest)
		return s.skipClosed(length, ok, "comment")
	case isSpace(c):
		s.skip(1)
	case c == '\'':
		length, ok := quoted(rest, '\'', false)
		return s.take(length, ok, "string")
	case c == '"':
		length, ok := quoted(rest, '"', false)
		return s.take(length, ok, "quoted identifier")
	case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
		length, ok := quoted(rest[1:], '\'', true)
		return s.take(length+1, ok, "string")
	case isWordStart(c):
		return s.take(word(rest), true, "")
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			length := strings.Index(rest[len(tag):], tag)
			return s.take(2*len(tag)+length, length >= 0, "dollar-quoted string")
		}
		return s.take(1, true, "")
	default:
		return s.take(1, true, "")
	}
	return nil
}

// take consumes part of a statement.
func (s *splitter) take(length int, closed bool, what string) error {
	if s.begin < 0 {
		s.begin, s.beginLine = s.at, s.line
	}
	if err := s.skipClosed(length, closed, what); err != nil {
		return err
	}
	s.end = s.at
	return nil
}

func (s *splitter) skipClosed(length int, closed bool, what string) error {
	if !closed {
		return fmt.Errorf("line %d: %s is not closed", s.line, what)
	}
	s.skip(length)
	return nil
}

func (s *splitter) skip(length int) {
	s.line += strings.Count(s.script[s.at:s.at+length], "\n")
	s.at += length
}

func (s *splitter) finish() {
	if s.begin >= 0 {
		s.statements = append(s.statements, Statement{Text: s.script[s.begin:s.end], Line: s.beginLine})
		s.begin = -1
	}
}

func lineEnd(text string) int {
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		return end
	}
	return len(text)
}

// blockComment measures a comment, which may hold others.
func blockComment(text string) (length int, closed bool) {
	depth := 0
	for i := 0; i+1 < len(text); {
		switch text[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
			if depth == 0 {
				return i, true
			}
		default:
			i++
		}
	}
	return 0, false
}

// quoted measures a string or identifier. A doubled quote needs no rule of its own: it reads as the end of one string and
// the beginning of the next.
func quoted(text string, quote byte, backslashes bool) (length int, closed bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case backslashes && text[i] == '\\':
			i++
		case backslashes && text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++ // here it does: the next one would be read without backslashes
		case text[i] == quote:
			return i + 1, true
		}
	}
	return 0, false
}

// dollarTag returns $$ or $tag$ at the beginning of text, or nothing.
func dollarTag(text string) string {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '$':
			return text[:i+1]
		case i == 1 && !isWordStart(c), !isWordPart(c):
			return ""
		}
	}
	return ""
}

// word measures an identifier or key word. A dollar sign inside it begins no quote.
func word(text string) int {
	for i := 1; i < len(text); i++ {
		if !isWordPart(text[i]) && text[i] != '$' {
			return i
		}
	}
	return len(text)
}

func isWordStart(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

func isWordPart(c byte) bool { return isWordStart(c) || '0' <= c && c <= '9' }

func isSpace(c byte) bool { return strings.IndexByte(" \t\n\r\f\v", c) >= 0 }
