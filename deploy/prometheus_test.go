package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	scrapeInterval = 250 * time.Millisecond // of the tests' Prometheus: a short sweep is seen many times
	pollTimeout    = 30 * time.Second       // until something that a test waits for has happened
	pollEvery      = 50 * time.Millisecond
)

// prometheus is a running Prometheus server that scrapes one proxy.
type prometheus struct{ url string }

// startPrometheus starts the real server on a free port of loopback, its data in
// a folder of the test, and waits for the first scrape of the admin port.
func startPrometheus(t testing.TB, admin string) *prometheus {
	t.Helper()
	path := tool(t, "prometheus")
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %v, scrape_timeout: %v}\nscrape_configs:\n- job_name: spectap\n  static_configs: [{targets: [%q]}]\n",
		scrapeInterval, scrapeInterval, strings.TrimPrefix(admin, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--log.level=info")
	prom := &prometheus{url: "http://" + p.printed(t, `msg="Listening on" address=([0-9.:]+)`)}
	poll(t, "a scrape of the proxy", func() bool {
		up, err := prom.at(time.Now(), "up == 1")
		return err == nil && len(up) == 1
	})
	return prom
}

// poll asks until the answer is yes.
func poll(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for deadline := time.Now().Add(pollTimeout); !yes(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", pollTimeout, what)
		}
	}
}

// series is one series of a result: its labels and its samples in time order.
type series struct {
	Labels  map[string]string `json:"metric"`
	Value   *sample           `json:"value"`  // of an instant vector
	Samples []sample          `json:"values"` // of a matrix
}

type sample struct {
	At    float64 // Unix seconds
	Value float64
}

// UnmarshalJSON reads the API's pair of a number and a text.
func (s *sample) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &[2]any{&s.At, &value}); err != nil {
		return err
	}
	var err error
	s.Value, err = strconv.ParseFloat(value, 64)
	return err
}

func (s sample) finite() bool { return !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) }

// at evaluates a query at one time.
func (p *prometheus) at(now time.Time, query string) ([]series, error) {
	return p.evaluate("/api/v1/query", url.Values{"query": {query}, "time": {unix(now)}})
}

// between evaluates a query at every step between two times.
func (p *prometheus) between(from, to time.Time, step time.Duration, query string) ([]series, error) {
	return p.evaluate("/api/v1/query_range", url.Values{
		"query": {query}, "start": {unix(from)}, "end": {unix(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

func (p *prometheus) evaluate(path string, form url.Values) ([]series, error) {
	var data struct{ Result []series }
	err := p.get(path, form, &data)
	return data.Result, err
}

// values lists the values of a label among the series that match.
func (p *prometheus) values(label, match string) ([]string, error) {
	var data []string
	err := p.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {match}}, &data)
	return data, err
}

// get reads the data of an answer of the API.
func (p *prometheus) get(path string, form url.Values, data any) error {
	text, err := fetch(p.url + path + "?" + form.Encode())
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("cannot read Prometheus's answer %q: %w", text, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("cannot evaluate: %s", answer.Error)
	}
	return nil
}

// client ends requests that hang.
var client = &http.Client{Timeout: 10 * time.Second}

// fetch returns the body of an answer, whatever its status.
func fetch(url string) ([]byte, error) {
	answer, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

func unix(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }
