package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listedRequest is one of transparency/requests.json.
type listedRequest struct {
	Name    string
	Method  string
	Path    string
	Headers map[string]string
	Body    json.RawMessage
	Text    string // in place of Body where it is no JSON
}

// askGo asks a list of transparency/requests.json with net/http.
func askGo(t *testing.T, all replies, url, run, upstream string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("transparency", "requests.json"))
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]listedRequest{}
	if err := json.Unmarshal(text, &lists); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: clientsTimeout}
	defer client.CloseIdleConnections()
	for _, r := range lists[upstream] {
		line, err := json.Marshal(r.ask(t, client, url, run))
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, line)
	}
}

func (r listedRequest) ask(t *testing.T, client *http.Client, url, run string) map[string]any {
	t.Helper()
	method, path := http.MethodPost, "/v1/chat/completions"
	if r.Method != "" {
		method = r.Method
	}
	if r.Path != "" {
		path = r.Path
	}
	request, err := http.NewRequest(method, url+path, bytes.NewReader(append([]byte(r.Text), r.Body...)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", run+"/go/"+r.Name)
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	got := map[string]any{"name": "go: " + r.Name}
	answer, err := client.Do(request)
	if err != nil {
		got["problem"] = strings.ReplaceAll(err.Error(), url, "")
		return got
	}
	defer answer.Body.Close()
	got["status"], got["length"], got["coding"], got["trailer"] = answer.Status, answer.ContentLength, answer.TransferEncoding, answer.Trailer
	for _, name := range []string{"Date", "X-Request-Id"} {
		answer.Header.Del(name)
	}
	got["headers"] = answer.Header
	got["objects"], err = objects(answer.Body, answer.Header.Get("Content-Type"))
	if err != nil {
		got["problem"] = err.Error()
	}
	return got
}

// objects reads the events of a stream as objects and its other lines as texts,
// or the one object of an answer.
func objects(body io.Reader, kind string) (list []any, err error) {
	if strings.HasPrefix(kind, "application/json") {
		text, err := io.ReadAll(body)
		return []any{json.RawMessage(text)}, err
	}
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if event, ok := strings.CutPrefix(line, "data: {"); ok {
			list = append(list, json.RawMessage("{"+event))
		} else if line != "" {
			list = append(list, line)
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
	}
}
