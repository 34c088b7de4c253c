package compare

import (
	"strings"
	"unicode/utf8"
)

// table is rows of text below a header; the first column is a name, the others are numbers
// unless left says otherwise.
type table struct {
	title string
	head  []string
	left  []bool // columns that are aligned to the left, besides the first
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) isLeft(column int) bool { return column == 0 || column < len(t.left) && t.left[column] }

// text lays the table out in columns, two blanks between them.
func (t *table) text() string {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		var out []string
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.isLeft(i) {
				cell += pad
			} else {
				cell = pad + cell
			}
			out = append(out, cell)
		}
		b.WriteString(strings.TrimRight(strings.Join(out, "  "), " ") + "\n")
	}
	if t.title != "" {
		b.WriteString(t.title + "\n")
	}
	line(t.head)
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = strings.Repeat("-", widths[i])
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// markdown lays the table out as GitHub's Markdown has tables.
func (t *table) markdown() string {
	var b strings.Builder
	if t.title != "" {
		b.WriteString("**" + cell(t.title) + "**\n\n")
	}
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + cell(c) + " |")
		}
		b.WriteString("\n")
	}
	line(t.head)
	b.WriteString("|")
	for i := range t.head {
		if t.isLeft(i) {
			b.WriteString("---|")
		} else {
			b.WriteString("---:|")
		}
	}
	b.WriteString("\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// cell is a text that stays in its cell, whatever it holds.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "`", "\\`").Replace(s)
}
