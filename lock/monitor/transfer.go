package monitor

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tag is the report's entity tag. It leaves out what time alone changes, At and Duration: a
// client knows those from the earlier report and its age. So the tag is a weak one, for
// equal in meaning.
func (r Report) tag() (string, error) {
	r.At = time.Time{}
	r.Locks = slices.Clone(r.Locks)
	for i := range r.Locks {
		r.Locks[i].Duration = nil
	}
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(r); err != nil {
		return "", err
	}
	return fmt.Sprintf(`W/"%x"`, hash.Sum(nil)[:16]), nil
}

// has reports whether a client already has the report with this weak tag.
func has(r *http.Request, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for _, line := range r.Header.Values("If-None-Match") {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == opaque {
				return true
			}
		}
	}
	return false
}

// send answers with a body, compressed if the client takes gzip.
func send(w http.ResponseWriter, r *http.Request, body []byte) {
	header := w.Header()
	if takesGzip(r) {
		body = compress(body)
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // it fails when nobody listens any more
	}
}

func takesGzip(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(line, ",") {
			name, weight, weighted := strings.Cut(strings.ReplaceAll(one, " ", ""), ";q=")
			if strings.EqualFold(name, "gzip") {
				q, err := strconv.ParseFloat(weight, 64)
				return !weighted || err == nil && q > 0
			}
		}
	}
	return false
}

func compress(data []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is a valid one
	_, _ = w.Write(data)                              // a buffer does not fail
	_ = w.Close()
	return out.Bytes()
}
