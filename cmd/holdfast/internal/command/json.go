package command

import (
	"io"

	"github.com/holdfast-go/holdfast/internal/plainjson"
)

// writeJSON writes v as one line of JSON, with nothing in it that does not print.
func writeJSON(w io.Writer, v any) error {
	line, err := plainjson.Line(v)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}
