package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spectap/collector"
)

// dataset is one entry of the table of data sets. A new data set is one entry;
// the responses file and the keys of Request_AL follow from its metric.
type dataset struct {
	name   string           // the value of --dataset
	metric collector.Metric // of acceptance_rate.json
	count  int              // conversations without --num_requests; 0: all
	limit  int              // most conversations that the metric can count; 0: no limit
	auto   string           // what --select auto means, as specdec_bench does
	read   func(path string) ([]collector.Question, error)
	parse  func(text []byte) ([]collector.Question, error) // of lines in memory; nil: files only
	check  func(chosen []collector.Question) error         // of the chosen rows; nil: none
	place  func(position int, q *collector.Question)       // ids by position; nil: the data set's own
	kinds  func(choice string) error                       // refuses a way of choosing; nil: all are fine
}

// datasets is the table.
func datasets() []dataset {
	return []dataset{
		{name: "mtbench", metric: collector.MetricMTBench, count: 80, limit: 80, auto: SelectFirst,
			read: readLines(parseMTBench), parse: parseMTBench, check: checkMTBench, place: placeMTBench, kinds: firstOnly},
		{name: "specbench", metric: collector.MetricSpecBench, count: 480, auto: SelectFirst,
			read: readLines(parseSpecBench), parse: parseSpecBench},
		{name: "speed", metric: collector.MetricSpecBench, auto: SelectStratified,
			read: readSpeedBench, check: checkSpeedBench},
	}
}

// source is the data set that a Config names, and where it is.
type source struct {
	dataset
	path string
	text []byte // instead of path
}

// findDataset reads the flags that name a data set.
func (c Config) findDataset() (source, error) {
	var found []source
	add := func(name, path string, text []byte) error {
		all := datasets()
		i := slices.IndexFunc(all, func(d dataset) bool { return d.name == name })
		if i < 0 {
			return fmt.Errorf("cannot use --dataset %q: want one of %s", name, strings.Join(datasetNames(), ", "))
		}
		found = append(found, source{dataset: all[i], path: path, text: text})
		return nil
	}
	var err error
	if c.Questions != nil {
		err = errors.Join(err, add("mtbench", "", c.Questions))
	}
	if c.MTBench != "" {
		err = errors.Join(err, add("mtbench", c.MTBench, nil))
	}
	if c.SpecBench != "" {
		err = errors.Join(err, add("specbench", c.SpecBench, nil))
	}
	switch {
	case c.Dataset != "" && c.DatasetPath == "":
		err = errors.Join(err, fmt.Errorf("--dataset %q needs --dataset_path", c.Dataset))
	case c.Dataset == "" && c.DatasetPath != "":
		err = errors.Join(err, fmt.Errorf("--dataset_path %q needs --dataset: want one of %s", c.DatasetPath, strings.Join(datasetNames(), ", ")))
	case c.Dataset != "":
		err = errors.Join(err, add(c.Dataset, c.DatasetPath, nil))
	}
	switch {
	case err != nil:
		return source{}, err
	case len(found) == 0:
		return source{}, errors.New("no data set is named: want --mtbench FILE, --specbench FILE, or --dataset NAME --dataset_path PATH")
	case len(found) > 1:
		return source{}, errors.New("several data sets are named: want one of --mtbench, --specbench, --dataset")
	}
	return found[0], nil
}

func datasetNames() []string {
	var names []string
	for _, d := range datasets() {
		names = append(names, d.name)
	}
	return names
}

// wanted is how many conversations are asked for.
type wanted struct {
	n    *int   // nil: the data set's default
	from string // the setting that n comes from
	lax  bool   // more than there are is fine, as for specdec_bench
}

// load reads the data set and chooses its conversations.
func (s source) load(choice string, want wanted) ([]collector.Question, error) {
	if choice == SelectAuto {
		choice = s.auto
	} else if s.kinds != nil {
		if err := s.kinds(choice); err != nil {
			return nil, err
		}
	}
	rows, err := s.rows()
	if err != nil {
		return nil, err
	}
	n, err := s.number(len(rows), want)
	if err != nil {
		return nil, err
	}
	chosen := choose(rows, choice, n)
	if s.check != nil {
		if err := s.check(chosen); err != nil {
			return nil, err
		}
	}
	for i := range chosen {
		if s.place != nil {
			s.place(i, &chosen[i])
		}
	}
	return chosen, nil
}

func (s source) rows() ([]collector.Question, error) {
	if s.text != nil {
		return s.parse(s.text)
	}
	return s.read(s.path)
}

// number returns how many of rows conversations are asked.
func (s source) number(rows int, want wanted) (int, error) {
	if rows == 0 {
		return 0, fmt.Errorf("data set %q has no questions", s.path)
	}
	if want.n == nil {
		if s.count == 0 {
			return rows, nil
		}
		return min(rows, s.count), nil
	}
	n := *want.n
	if most := s.most(rows); n < 1 || n > most && !(want.lax && n > rows && most == rows) {
		return 0, fmt.Errorf("cannot use %s %d: want 1 to %d", want.from, n, most)
	}
	return min(n, rows), nil
}

func (s source) most(rows int) int {
	if s.limit > 0 {
		return min(rows, s.limit)
	}
	return rows
}

// choose returns n of rows in the order in which they are asked.
func choose(rows []collector.Question, choice string, n int) []collector.Question {
	picked := first(len(rows), n)
	if choice == SelectStratified {
		categories := make([]string, len(rows))
		for i := range rows {
			categories[i] = rows[i].Category
		}
		picked = stratified(categories, n)
	}
	chosen := make([]collector.Question, 0, len(picked))
	for _, i := range picked {
		chosen = append(chosen, rows[i])
	}
	return chosen
}

// readLines makes a reader of files from a parser of their text.
func readLines(parse func([]byte) ([]collector.Question, error)) func(string) ([]collector.Question, error) {
	return func(path string) ([]collector.Question, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read question file: %w", err)
		}
		rows, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read question file %q: %w", path, err)
		}
		return rows, nil
	}
}

// eachLine calls f for each line of JSON lines; an error names its line. As in
// specdec_bench an empty line is an error.
func eachLine(text []byte, f func(line []byte) (collector.Question, error)) ([]collector.Question, error) {
	var rows []collector.Question
	body := strings.TrimSuffix(string(text), "\n")
	if body == "" {
		return nil, nil
	}
	for i, line := range strings.Split(body, "\n") {
		q, err := f([]byte(line))
		if err == nil && !utf8.ValidString(line) {
			err = errors.New("is not UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		q.Turns = len(q.Prompts)
		rows = append(rows, q)
	}
	return rows, nil
}

// readTurns reads a list of user turns.
func readTurns(key string, value json.RawMessage) ([]string, error) {
	var turns []string
	if err := json.Unmarshal(value, &turns); err != nil {
		return nil, fmt.Errorf("cannot use %q: want a list of strings", key)
	}
	if len(turns) == 0 {
		return nil, fmt.Errorf("%q is empty: want at least one turn", key)
	}
	return turns, nil
}

// questionText returns an id as it stands in labels: a string without quotes.
func questionText(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return s
	}
	return string(id)
}

func number(i int) json.RawMessage { return json.RawMessage(strconv.Itoa(i)) }
