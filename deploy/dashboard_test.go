package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

const dashboardFile = "grafana/dashboards/spectap.json"

// dashboard is what the tests read of a Grafana dashboard.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               datasource
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []target
	Panels  []panel // of a collapsed row
}

type datasource struct{ Type, UID string }

type target struct {
	RefID        string
	Expr         string
	LegendFormat string
	Interval     string // least step
	Instant      bool
	Format       string
	Datasource   datasource
}

type variable struct {
	Name, Type, Regex, AllValue string
	Multi, IncludeAll           bool
	Datasource                  datasource
	Definition                  string
	Query                       json.RawMessage
	Current                     struct{ Value json.RawMessage }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	return d
}

// all lists the panels with those of collapsed rows, rows left out.
func (d dashboard) all() []panel {
	var out []panel
	for _, p := range d.Panels {
		if p.Type != "row" {
			out = append(out, p)
		}
		out = append(out, p.Panels...)
	}
	return out
}

// The dashboard can be imported as it is: Grafana renames, drops or stacks what
// this refuses.
func TestDashboardStructure(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 {
		t.Errorf("got uid %q, title %q, schemaVersion %d; want all set, the schema of Grafana 11 or later", d.UID, d.Title, d.SchemaVersion)
	}
	checkVariables(t, d)
	titles, ids, cells := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range append(d.all(), rows(d)...) {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%q: id %d is missing or taken", p.Title, p.ID)
		}
		if p.Title == "" || titles[p.Title] {
			t.Errorf("panel %d: title %q is missing or taken", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		checkPosition(t, p, cells)
	}
	for _, p := range d.all() {
		checkPanel(t, p)
	}
}

func rows(d dashboard) (out []panel) {
	for _, p := range d.Panels {
		if p.Type == "row" {
			out = append(out, p)
		}
	}
	return out
}

// checkPosition marks the cells of Grafana's 24 columns that a panel covers.
func checkPosition(t *testing.T, p panel, cells map[[2]int]string) {
	t.Helper()
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
		t.Errorf("%q: got position %+v, want one within 24 columns", p.Title, g)
	}
	for x := g.X; x < g.X+g.W; x++ {
		for y := g.Y; y < g.Y+g.H; y++ {
			if other, taken := cells[[2]int{x, y}]; taken {
				t.Errorf("%q lies over %q at column %d, line %d", p.Title, other, x, y)
				return
			}
			cells[[2]int{x, y}] = p.Title
		}
	}
}

// checkPanel: everything that a reader needs, and the data source by its variable.
func checkPanel(t *testing.T, p panel) {
	t.Helper()
	want := datasource{Type: "prometheus", UID: "${datasource}"}
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
		t.Errorf("%q: got description %q and unit %q, want both", p.Title, p.Description, p.FieldConfig.Defaults.Unit)
	}
	if p.Datasource != want || len(p.Targets) == 0 {
		t.Errorf("%q: got data source %+v and %d queries, want %+v and at least one", p.Title, p.Datasource, len(p.Targets), want)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if q.Datasource != want || q.RefID == "" || refs[q.RefID] {
			t.Errorf("%q: query %q has data source %+v, or its name twice", p.Title, q.RefID, q.Datasource)
		}
		refs[q.RefID] = true
		if strings.Contains(q.Expr, "$__rate_interval") && q.Interval != "$interval" {
			t.Errorf("%q: query %s has a least step of %q, want $interval: it sets the window", p.Title, q.RefID, q.Interval)
		}
	}
}

func checkVariables(t *testing.T, d dashboard) {
	t.Helper()
	names := map[string]variable{}
	for _, v := range d.Templating.List {
		names[v.Name] = v
	}
	for _, name := range []string{"datasource", "model", "engine", "point", "interval"} {
		if _, ok := names[name]; !ok {
			t.Errorf("there is no variable %q", name)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" && (v.Datasource.UID != "${datasource}" || !v.Multi || !v.IncludeAll || v.AllValue != ".*") {
			t.Errorf("variable %q: got %+v, want several values, all as .*, from ${datasource}", v.Name, v)
		}
	}
}

// labelValues is the only form of a variable's query that the dashboard uses.
var labelValues = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

// grafana replaces a dashboard's variables as Grafana does.
type grafana struct {
	chosen map[string][]string // values of a variable; none is All
	step   time.Duration       // least step of the panel: $interval
	span   time.Duration       // of the time picker
}

// rateInterval is $__rate_interval of a panel whose step is the least one:
// at least four scrapes, so that a rate has samples enough.
// Source: Grafana, "Prometheus template variables".
func (g grafana) rateInterval() time.Duration { return max(g.step+scrapeInterval, 4*scrapeInterval) }

var variableName = regexp.MustCompile(`\$\{?(\w+)(?::\w+)?\}?`)

// expand replaces all variables of a query; one that Grafana does not know stays.
func (g grafana) expand(query string) string {
	return variableName.ReplaceAllStringFunc(query, func(name string) string {
		switch key := variableName.FindStringSubmatch(name)[1]; key {
		case "__rate_interval":
			return window(g.rateInterval())
		case "__interval", "interval":
			return window(g.step)
		case "__range":
			return window(g.span)
		default:
			values, ok := g.chosen[key]
			if !ok {
				return name
			}
			return asRegexp(values)
		}
	})
}

// asRegexp formats chosen values as Grafana does for Prometheus: All is the
// variable's allValue as it stands, one value is escaped, several are a group.
func asRegexp(values []string) string {
	if len(values) == 0 {
		return ".*"
	}
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`)
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

// window is a duration as Prometheus reads it.
func window(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
