package deploy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What may differ between an answer of the real server and the same through
// spectap, beside what the server makes anew for each answer (masks):
//
//   - the value of Date, which passes through but is another second's;
//   - the case and the place of the fields that the HTTP server writes itself (written);
//   - Connection: close of a server whose client did not ask for it (closes): that is
//     between spectap and the server, the client's connection is kept;
//   - where the chunks of a chunked body end: what one read brought is written at once.
//
// written are the fields that spectap's HTTP server writes itself, in its own
// spelling and before the others. Their values pass through.
var written = []string{"server", "content-type", "content-length", "connection", "transfer-encoding"}

// masks are the values that the server makes anew.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"id":"[^"]*"`), `"id":"*"`},
	{regexp.MustCompile(`"created":[0-9]+`), `"created":0`},
}

// masked are a case's own masks: values of members that are made anew, too.
func masked(body string, members []string) string {
	for _, m := range masks {
		body = m.pattern.ReplaceAllString(body, m.with)
	}
	for _, name := range members {
		body = regexp.MustCompile(`"`+name+`":("[^"]*"|[0-9.]+)`).ReplaceAllString(body, `"`+name+`":0`)
	}
	return body
}

// whole is an answer as it is compared.
type whole struct {
	Interim, Fields, Trailer []string
	Status, Body, End        string
}

func (a *rawAnswer) whole(c transparentCase) whole {
	w := whole{Interim: a.interim, Status: a.status, Trailer: a.trailer, Body: a.body, End: a.end}
	if !c.exact {
		w.Body = masked(a.body, c.anew)
	}
	if c.shape != nil {
		w.Body = c.shape(a.body)
	}
	if c.closes {
		w.End = ""
	}
	var first []string
	for _, line := range a.fields {
		name, value, _ := strings.Cut(line, ":")
		madeAnew := strings.EqualFold(name, "X-Request-Id") && !strings.Contains(c.request.head, "X-Request-Id")
		if madeAnew || strings.EqualFold(name, "Date") || c.shape != nil && strings.EqualFold(name, "Content-Length") {
			value = " *"
		}
		if c.closes && strings.EqualFold(line, "Connection: close") {
			continue
		}
		if low := strings.ToLower(name); slices.Contains(written, low) {
			first = append(first, low+":"+value)
			continue
		}
		w.Fields = append(w.Fields, name+":"+value)
	}
	slices.Sort(first)
	w.Fields = append(first, w.Fields...)
	return w
}

// difference says in which parts two answers differ; "" where in none.
func (w whole) difference(v whole) string {
	var parts []string
	f := func(name string, a, b any) {
		if x, y := fmt.Sprintf("%q", a), fmt.Sprintf("%q", b); x != y {
			at := 0
			for at < len(x) && at < len(y) && x[at] == y[at] {
				at++
			}
			from := max(0, at-60)
			parts = append(parts, fmt.Sprintf("%s differs at %d:\n\tdirect  %s\n\tthrough %s", name, at, x[from:min(len(x), at+200)], y[from:min(len(y), at+200)]))
		}
	}
	f("interim", w.Interim, v.Interim)
	f("status", w.Status, v.Status)
	f("fields", w.Fields, v.Fields)
	f("trailer", w.Trailer, v.Trailer)
	f("body", w.Body, v.Body)
	f("end", w.End, v.End)
	return strings.Join(parts, "\n")
}

// joined is an answer whose body is told without the boundaries of its events,
// which the server merges when it is busy: texts and arguments joined by choice,
// the other values in their order, each once.
func (w whole) joined() whole {
	var out []string
	texts := map[string]string{}
	seen := map[string]bool{}
	for event := range strings.SplitSeq(w.Body, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		var members any
		if !ok || json.Unmarshal([]byte(data), &members) != nil {
			out = append(out, event)
			continue
		}
		rest, err := json.Marshal(withoutTexts(members, "", texts))
		if err != nil {
			panic(err) // it was just read
		}
		if line := string(rest); !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	slices.Sort(out)
	all, err := json.Marshal(texts) // in the order of its names
	if err != nil {
		panic(err)
	}
	w.Body = strings.Join(append(out, string(all)), "\n")
	return w
}

// withoutTexts moves the texts of an event's choices to texts, under their paths.
func withoutTexts(v any, path string, texts map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		if index, ok := v["index"].(float64); ok {
			path = fmt.Sprint(path, int(index))
		}
		for name, value := range v {
			text, ok := value.(string)
			switch {
			case ok && (name == "content" || name == "text" || name == "arguments" || name == "reasoning"):
				texts[path+"."+name] += text
				delete(v, name)
			case name == "logprobs" || name == "token_ids" || name == "usage" || name == "speculative_decoding":
				if name == "logprobs" || name == "token_ids" {
					texts[path+"."+name] += strings.Trim(fmt.Sprint(value), "[]") + " "
				}
				delete(v, name)
			default:
				v[name] = withoutTexts(value, path+"."+name, texts)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutTexts(v[i], path, texts)
		}
	}
	return v
}
