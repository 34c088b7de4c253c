package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance is the relative luminance of #rrggbb (WCAG 2.2).
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Every text can be read, dark and light: a contrast of 4.5 or more (WCAG 2.2,
// 1.4.3), the names of series in their colours among them.
func TestContrast(t *testing.T) {
	light, rest, _ := strings.Cut(pageCSS, "@media screen and (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "* {")
	colours := regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`)
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		vars := map[string]string{}
		for _, m := range colours.FindAllStringSubmatch(css, -1) {
			vars[m[1]] = m[2]
		}
		pairs := [][2]string{{"text", "back"}, {"text", "card"}, {"quiet", "back"}, {"quiet", "card"}, {"link", "back"}, {"link", "card"}, {"bad", "card"}, {"text", "warn-back"}}
		for i := range shapes {
			pairs = append(pairs, [2]string{fmt.Sprintf("c%d", i), "card"})
		}
		for _, p := range pairs {
			if vars[p[0]] == "" || vars[p[1]] == "" {
				t.Fatalf("%s has no colour %s or %s", scheme, p[0], p[1])
			}
			a, b := luminance(t, vars[p[0]]), luminance(t, vars[p[1]])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("%s: %s on %s has contrast %.2f, want 4.5 or more", scheme, p[0], p[1], ratio)
			}
		}
	}
}

// Series are told apart without colour: no two have the same marker, nor the same dashes.
func TestSeriesWithoutColour(t *testing.T) {
	markers, dashes := map[string]bool{}, map[string]bool{}
	for i := range shapes {
		markers[marker(i, 0, 0)] = true
		m := regexp.MustCompile(fmt.Sprintf(`\.line\.s%d \{ stroke-dasharray: ([^;]*);`, i)).FindStringSubmatch(pageCSS)
		if m == nil {
			m = []string{"", "none"}
		}
		dashes[m[1]] = true
	}
	if len(markers) != shapes || len(dashes) != shapes {
		t.Errorf("got %d markers and %d dashes, want %d of each", len(markers), len(dashes), shapes)
	}
}
