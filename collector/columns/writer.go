package columns

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

// A row group is held in memory until it is written, and by many readers when they
// read it: it ends after so many rows, or where their lines in the records file
// have so many bytes.
const (
	groupRows  = 1 << 17
	groupBytes = 64 << 20
)

// Writer writes Rows as one Parquet file. It is for one goroutine.
type Writer struct {
	file  *parquet.GenericWriter[Row]
	one   []Row
	bytes int // of the lines of the row group at work
	rows  int64
}

// NewWriter begins a Parquet file. version is that of the program, for created_by.
func NewWriter(to io.Writer, version string) *Writer {
	return &Writer{
		one: make([]Row, 1),
		file: parquet.NewGenericWriter[Row](to,
			parquet.KeyValueMetadata(SchemaKey, Schema),
			parquet.CreatedBy("spectap", version, "parquet-go"),
			parquet.Compression(&parquet.Zstd),
			parquet.MaxRowsPerRowGroup(groupRows)),
	}
}

// Write adds a Row. size is the length of its line in the records file.
func (w *Writer) Write(row Row, size int) error {
	w.one[0] = row
	if _, err := w.file.Write(w.one); err != nil {
		return err
	}
	w.one[0] = Row{}
	w.rows++
	if w.bytes += size; w.bytes < groupBytes {
		return nil
	}
	w.bytes = 0
	return w.file.Flush()
}

// Rows is how many were written.
func (w *Writer) Rows() int64 { return w.rows }

// Close writes the end of the file; without it, it is no Parquet file.
func (w *Writer) Close() error { return w.file.Close() }
