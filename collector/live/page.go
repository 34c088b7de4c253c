package live

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// pageText is the page with its style and script in it; pageID tells one page
// text from another; pagePolicy lets the browser run and show this style and
// script only, and connect to us only.
var (
	pageText   = strings.NewReplacer("/*style*/", pageCSS, "/*script*/", pageJS).Replace(pageHTML)
	pageID     = hashOf(pageText)[:12]
	pagePolicy = "default-src 'none'; style-src 'sha256-" + hashOf(pageCSS) + "'; script-src 'sha256-" + hashOf(pageJS) +
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// hashOf is the hash of a Content-Security-Policy (CSP level 3 section 2.3.1).
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// servePage answers GET and HEAD of /.
func servePage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(pageText)))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write([]byte(pageText)) // fails only when the asker left
}
