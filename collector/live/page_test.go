package live

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page explains every kind of failure and every reason that there is.
func TestEveryKindIsExplained(t *testing.T) {
	text, err := os.ReadFile("../record.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t(?:Err|Missing)\w+ += "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(kinds) < 20 {
		t.Fatalf("found %d kinds and reasons, want all of them", len(kinds))
	}
	for _, kind := range append(kinds, []string{"", unbelieved}) {
		if !strings.Contains(pageJS, "\n    "+kind[1]+": '") {
			t.Errorf("the page does not say what %q is", kind[1])
		}
	}
}
