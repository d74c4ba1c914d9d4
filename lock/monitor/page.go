package monitor

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

// page is all there is to load: it names no other resource.
//
//go:embed page.html
var page []byte

// policy lets the page run its own script and style, by their hashes, and fetch from
// where it came, and nothing else. Scripts can't have texts parsed as HTML.
var policy = "default-src 'none'; connect-src 'self'; img-src data:" +
	"; script-src " + hashOf("script") + "; style-src " + hashOf("style") +
	"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
	"; require-trusted-types-for 'script'; trusted-types 'none'"

// hashOf names the content of the page's one element of this name for the policy.
func hashOf(element string) string {
	_, rest, _ := bytes.Cut(page, []byte("<"+element+">"))
	text, _, ok := bytes.Cut(rest, []byte("</"+element+">"))
	if !ok {
		panic("the page has no " + element)
	}
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
