package main

import (
	"slices"
	"strings"
	"testing"
)

func TestJoinLists(t *testing.T) {
	lists := map[string]bool{"temperature": true, "concurrency": true, "save_lists": true}
	f := func(in, want string) {
		t.Helper()
		got := joinLists(strings.Fields(in), lists)
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("joinLists(%q): got %q, want %q", in, got, want)
		}
	}
	f("sweep --temperature 0 1 --concurrency 1 8 32 --url u", "sweep --temperature=0,1 --concurrency=1,8,32 --url u")
	f("sweep --temperature 0,1 --dry_run", "sweep --temperature=0,1 --dry_run")
	f("sweep --temperature=0 1 --x y", "sweep --temperature=0,1 --x y")                                 // inline and following
	f("sweep --temperature 0 --temperature 1", "sweep --temperature=0 --temperature=1")                 // repeated
	f("sweep --temperature --x", "sweep --temperature= --x")                                            // no value: the list complains, --x is no value
	f("sweep --save-lists a b", "sweep --save-lists=a,b")                                               // dashes
	f("exec --temperature 0 -- cmd --temperature 1 2", "exec --temperature=0 -- cmd --temperature 1 2") // not ours after --
}

func TestListFlagTakesAllSpellings(t *testing.T) {
	f := func(want string, sets ...string) {
		t.Helper()
		var l list
		for _, s := range sets {
			if err := l.Set(s); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.String(); got != want {
			t.Errorf("Set(%q): got %q, want %q", sets, got, want)
		}
	}
	f("0,1", "0,1")
	f("0,1", "0", "1")
	f("0,0.6,1", "0, 0.6", "1")
}
