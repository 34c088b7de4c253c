package main

import (
	"slices"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	environ := map[string]string{
		"SPECTAP_UPSTREAM": "x", "SPECTAP_PPROF": "x", "SPECTAP_TRACE_CHUNKS": "x", "SPECTAP_API_KEY": "x", "OTHER": "x",
		"SPECTAP_SERVICE_HOST": "x", "SPECTAP_PORT_8000_TCP": "x", "SPECTAP_UPSTREEM": "x", "SPECTAP_MODE": "x",
	}
	got := unknownVariables(environ, new(proxySettings).all())
	if want := []string{"SPECTAP_MODE", "SPECTAP_UPSTREEM"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
