package report

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"html/template"
	"slices"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"arg": newPicture}).Parse(pageHTML))

// picture is a drawing of a figure with an identity of its own.
type picture struct {
	F  figure
	D  drawing
	ID string
}

func newPicture(f figure, d drawing, size string) picture {
	return picture{f, d, size + "-" + f.ID}
}

// pagePolicy lets a browser use the page's own style and nothing else: no script,
// no picture but the empty icon, no address.
var pagePolicy = "default-src 'none'; style-src 'sha256-" + hashOf(pageCSS) + "'; img-src data:; base-uri 'none'; form-action 'none'"

// hashOf is the hash of a Content-Security-Policy (CSP level 3 section 2.3.1).
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page is what the template shows.
type page struct {
	Policy   string
	Style    template.CSS
	Title    string
	Subtitle string
	Facts    []fact
	Tiles    []tile
	Notices  []string
	Sections []section
}

// fact is a name and its value.
type fact struct{ Name, Value string }

// tile is a figure that is read first.
type tile struct{ Name, Value, Unit, More string }

// section is a headline and what stands below it.
type section struct {
	ID, Title string
	Blocks    []block
}

// block is one of a text, a list, a table, charts side by side, or facts.
type block struct {
	Text    string
	Quiet   bool
	List    []string
	Table   *table
	Figures []figure
	Facts   []fact
}

// table is a table of texts. The first cell of a row names the row.
type table struct {
	Caption string
	Head    []cell
	Rows    [][]cell
	Notes   []string
}

// Hint is the class of the table's hint that it scrolls, by how narrow a place it
// needs to be in; "" where the table fits everywhere.
func (t table) Hint() string {
	switch n := len(t.Head); {
	case n < 4:
		return ""
	case n < 8:
		return "some"
	}
	return "many"
}

// cell is one text, with a smaller one below it.
type cell struct {
	Text, Small string
	Number      bool // right-aligned
	Bad         bool
}

func heads(names ...string) []cell {
	cells := make([]cell, len(names))
	for i, n := range names {
		cells[i] = cell{Text: n, Number: i > 0}
	}
	return cells
}

func textCell(text string) cell { return cell{Text: text} }

func number(text string) cell { return cell{Text: text, Number: true} }

func (s *section) say(text string) { s.Blocks = append(s.Blocks, block{Text: text}) }

func (s *section) quiet(text string) { s.Blocks = append(s.Blocks, block{Text: text, Quiet: true}) }

func (s *section) table(t table) { s.Blocks = append(s.Blocks, block{Table: &t}) }

func (s *section) figures(f ...figure) {
	if len(f) > 0 {
		s.Blocks = append(s.Blocks, block{Figures: f})
	}
}

// page makes the page. Sections without anything to show are not there.
func (s *Source) page() page {
	p := page{
		Policy: pagePolicy, Style: template.CSS(pageCSS), Title: s.title(), Subtitle: s.subtitle(),
		Facts: s.headFacts(), Tiles: s.tiles(), Notices: s.notices(),
	}
	for _, make := range []func() section{
		s.pointsSection, s.throughputSection, s.acceptanceSection, s.whatIfSection, s.latencySection, s.goodputSection, s.speedUpSection,
		s.differencesSection, s.auditSection, s.failedSection, s.provenanceSection,
	} {
		if made := make(); len(made.Blocks) > 0 {
			p.Sections = append(p.Sections, made)
		}
	}
	return p
}

// speculative are the complete points that have an acceptance.
func (s *Source) speculative() []*point {
	return slices.DeleteFunc(s.complete(), func(p *point) bool { return !p.speculates() })
}

// complete are the points that have figures.
func (s *Source) complete() []*point {
	var list []*point
	for _, p := range s.points {
		if !p.failed {
			list = append(list, p)
		}
	}
	return list
}
