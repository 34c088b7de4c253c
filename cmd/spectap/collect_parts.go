package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spectap/collector/columns"
)

// parquetParts are the Parquet files of a command. They have hidden names until
// all are complete.
//
//	.spectap-*.partial ──▶ records.parquet, or records-00001.parquet, ...
type parquetParts struct {
	dir   string
	limit int64 // most rows of a file; 0: no limit
	rows  int64

	parts []string // temporary names
	file  *os.File // of the last part while it is written
	out   *bufio.Writer
	table *columns.Writer
}

// prepare makes the folder and refuses one that has such files.
func (p *parquetParts) prepare() error {
	if err := os.MkdirAll(p.dir, 0o777); err != nil {
		return fmt.Errorf("cannot make the folder for the files: %w; choose another --save_dir", err)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("cannot read the folder for the files: %w", err)
	}
	for _, e := range entries {
		if old, _ := filepath.Match("records*.parquet", e.Name()); old {
			return fmt.Errorf("%s exists already: choose another --save_dir", filepath.Join(p.dir, e.Name()))
		}
	}
	return nil
}

// write adds a row. size is the length of its line.
func (p *parquetParts) write(row columns.Row, size int) error {
	if p.table != nil && p.limit > 0 && p.table.Rows() == p.limit {
		if err := p.end(); err != nil {
			return err
		}
	}
	if err := p.begin(); err != nil {
		return err
	}
	p.rows++
	if err := p.table.Write(row, size); err != nil {
		return fmt.Errorf("cannot write Parquet: %w", err)
	}
	return nil
}

// begin begins a part where none is at work.
func (p *parquetParts) begin() error {
	if p.table != nil {
		return nil
	}
	file, err := os.CreateTemp(p.dir, ".spectap-*.partial")
	if err != nil {
		return fmt.Errorf("cannot write Parquet: %w", err)
	}
	p.parts, p.file = append(p.parts, file.Name()), file
	p.out = bufio.NewWriterSize(file, 1<<16)
	p.table = columns.NewWriter(p.out, version())
	return nil
}

// end completes the part at work.
func (p *parquetParts) end() error {
	err := p.table.Close()
	if err == nil {
		err = p.out.Flush()
	}
	if err == nil {
		err = p.file.Chmod(0o644)
	}
	if err == nil {
		err = p.file.Sync()
	}
	err = errors.Join(err, p.file.Close())
	p.table, p.file = nil, nil
	if err != nil {
		return fmt.Errorf("cannot write Parquet: %w", err)
	}
	return nil
}

// finish completes the last part and gives all their names. Without a row there is
// one part, which holds the columns alone.
func (p *parquetParts) finish() error {
	if len(p.parts) == 0 {
		if err := p.begin(); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	for i, part := range p.parts {
		if err := os.Rename(part, p.name(i)); err != nil {
			return fmt.Errorf("cannot name the Parquet: %w", err)
		}
	}
	dir, err := os.Open(p.dir)
	if err != nil {
		return fmt.Errorf("cannot sync folder: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// name is the path of the part at an index.
func (p *parquetParts) name(i int) string {
	if p.limit == 0 {
		return filepath.Join(p.dir, "records.parquet")
	}
	return filepath.Join(p.dir, fmt.Sprintf("records-%05d.parquet", i+1))
}

// names says where the rows are.
func (p *parquetParts) names() string {
	if n := len(p.parts); n > 1 {
		return fmt.Sprintf("%s to %s", p.name(0), filepath.Base(p.name(n-1)))
	}
	return p.name(0)
}

// discard removes what was written.
func (p *parquetParts) discard() error {
	var errs []error
	if p.file != nil {
		errs = append(errs, p.file.Close())
	}
	for i, part := range p.parts {
		for _, name := range []string{part, p.name(i)} {
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
