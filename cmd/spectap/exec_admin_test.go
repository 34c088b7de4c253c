package main

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"

	"spectap/collector"
)

// The live page beside a command says where the command asks, and its port tells
// of a panic what that of a proxy tells.
func TestExecAdminPort(t *testing.T) {
	e := &execution{p: program{env: map[string]string{}}, log: zerolog.Nop()}
	for _, each := range e.cfg.all() {
		if err := env.ParseWithOptions(each, env.Options{Environment: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	e.cfg.proxy.Admin = "127.0.0.1:0"
	tap, err := e.openTap(collector.Tee{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(tap.admin.Handler)
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		State struct {
			Listen string `json:"listen"`
		} `json:"state"`
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &got); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if want := strings.TrimPrefix(tap.url, "http://"); got.State.Listen != want {
		t.Errorf("the page says that clients connect to %q, want %q", got.State.Listen, want)
	}
	if tap.admin.ErrorLog == nil || tap.admin.IdleTimeout == 0 {
		t.Errorf("got log %v and idle limit %v of the admin port, want both", tap.admin.ErrorLog, tap.admin.IdleTimeout)
	}
}
