package cli

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// lineReader reads lines of bounded length. A longer line is skipped whole, so that what follows keeps its number.
type lineReader struct {
	in     *bufio.Reader
	max    int
	number int64
}

func newLineReader(r io.Reader, maxLine int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 1<<16), max: maxLine}
}

// lineTooLongError is a line that was skipped.
type lineTooLongError struct {
	max int
}

func (e *lineTooLongError) Error() string {
	return fmt.Sprintf("longer than --max-line %d bytes", e.max)
}

// next returns the next line without its end, its number counted from 1, and how many bytes of input it took. The text
// belongs to the caller. The end is io.EOF; a line that is too long is a *lineTooLongError, after which next goes on.
func (l *lineReader) next() (text []byte, number int64, size int, err error) {
	tooLong := false
	for {
		piece, err := l.in.ReadSlice('\n')
		size += len(piece)
		if !tooLong {
			text = append(text, piece...)
			tooLong = len(bytes.TrimRight(text, "\r\n")) > l.max
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, l.number, size, fmt.Errorf("read line %d: %w", l.number+1, err)
		case err != nil && size == 0:
			return nil, l.number, 0, io.EOF
		}
		l.number++
		if tooLong {
			return nil, l.number, size, &lineTooLongError{max: l.max}
		}
		return bytes.TrimRight(text, "\r\n"), l.number, size, nil
	}
}

// checkJSON says where a line stops being JSON.
func checkJSON(text []byte) error {
	if jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := decoder.ReadValue(); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) && syntax.Err != nil {
			return fmt.Errorf("not JSON: %w at byte %d", syntax.Err, syntax.ByteOffset+1)
		}
		return errors.New("not JSON: the line ends too early")
	}
	return errors.New("not JSON: more than one value")
}

// lineID is the transaction id of a line: the same for the same source and number, always.
func lineID(source string, line int64) string {
	sum := sha256.Sum256([]byte(source + "\x00" + strconv.FormatInt(line, 10)))
	return hex.EncodeToString(sum[:16])
}

// fieldOf is the text of a top-level field: a string's content, or a number or bool as it stands.
func fieldOf(text []byte, field string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return "", fmt.Errorf("no object, so it has no field %q to partition by", field)
	}
	raw, ok := object[field]
	if !ok {
		return "", fmt.Errorf("has no field %q to partition by", field)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", fmt.Errorf("read field %q: %w", field, err)
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return "", fmt.Errorf("field %q to partition by is empty", field)
		}
		return v, nil
	case float64, bool:
		return string(raw), nil
	}
	return "", fmt.Errorf("field %q to partition by is no string, number or bool", field)
}
