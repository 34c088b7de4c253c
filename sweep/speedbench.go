package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"spectap/collector"
)

// placeholder starts a turn whose text SPEED-Bench may not ship.
const placeholder = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"

// readSpeedBench reads a prepared parquet file, or all of a folder at any
// depth, sorted by path (datasets/speed.py takes file-system order).
func readSpeedBench(path string) ([]collector.Question, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read --dataset_path: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = parquetFiles(path); err != nil {
			return nil, err
		}
	}
	var rows []collector.Question
	for _, file := range files {
		read, err := readParquet(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read parquet file %q: %w", file, err)
		}
		rows = append(rows, read...)
	}
	return rows, nil
}

func parquetFiles(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".parquet") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list --dataset_path: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %q has no .parquet file: want the output of specdec_bench's prepare_data.py", folder)
	}
	slices.Sort(files)
	return files, nil
}

// readParquet reads the columns question_id, category and turns of one file.
func readParquet(path string) ([]collector.Question, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	columns, err := findColumns(file.Schema().Columns())
	if err != nil {
		return nil, err
	}
	var rows []collector.Question
	for _, group := range file.RowGroups() {
		if rows, err = appendRows(rows, group, columns); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// speedColumns are leaf columns by index; writers differ in what lies between
// a list and its elements ("list.element", "list.item", "array"), so only the
// first name of a leaf's path counts.
type speedColumns struct {
	id, turns, category int // category: -1 where there is none
}

func findColumns(leaves [][]string) (speedColumns, error) {
	find := func(name string) int {
		return slices.IndexFunc(leaves, func(path []string) bool { return path[0] == name })
	}
	c := speedColumns{id: find("question_id"), turns: find("turns"), category: find("category")}
	if c.id < 0 || c.turns < 0 {
		return c, errors.New("want the columns question_id, category and turns of a prepared SPEED-Bench file")
	}
	return c, nil
}

func appendRows(rows []collector.Question, group parquet.RowGroup, columns speedColumns) ([]collector.Question, error) {
	reader := group.Rows()
	defer reader.Close()
	buffer := make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(buffer)
		for _, row := range buffer[:n] {
			q := columns.question(row)
			if len(q.Prompts) == 0 {
				return nil, fmt.Errorf("row %d has no turns", len(rows))
			}
			if len(q.ID) == 0 {
				return nil, fmt.Errorf("row %d has no question_id", len(rows))
			}
			rows = append(rows, q)
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// question reads one row; values are copied, the row belongs to the reader.
func (c speedColumns) question(row parquet.Row) collector.Question {
	var q collector.Question
	for _, v := range row {
		if v.IsNull() {
			continue
		}
		switch v.Column() {
		case c.id:
			q.ID = speedID(v)
		case c.turns:
			if turn, ok := stringIn(v); ok {
				q.Prompts = append(q.Prompts, turn)
			}
		case c.category: // -1 where there is none, which is no column
			q.Category, _ = stringIn(v)
		}
	}
	q.Turns = len(q.Prompts)
	return q
}

// speedID keeps the id's type: a string or a whole number. Others are none.
func speedID(v parquet.Value) json.RawMessage {
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		return json.RawMessage(v.String())
	}
	text, ok := stringIn(v)
	if !ok {
		return nil
	}
	id, _ := json.Marshal(text) // a string always marshals
	return id
}

// stringIn copies a value that holds bytes; to ask another one for them reads
// memory that is not there.
func stringIn(v parquet.Value) (string, bool) {
	if v.Kind() != parquet.ByteArray && v.Kind() != parquet.FixedLenByteArray {
		return "", false
	}
	return string(v.ByteArray()), true
}

// checkSpeedBench refuses chosen rows whose text was never fetched.
func checkSpeedBench(chosen []collector.Question) error {
	for _, q := range chosen {
		for _, turn := range q.Prompts {
			if strings.HasPrefix(turn, placeholder) {
				return fmt.Errorf("question %s of category %q is a placeholder: run specdec_bench's prepare_data.py to fetch the texts", q.ID, q.Category)
			}
		}
	}
	return nil
}
