package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spectap/collector"
)

// book is sweep.json as far as a report shows it.
type book struct {
	Run         string            `json:"run"`
	Started     string            `json:"started"`
	Version     string            `json:"spectap_version"`
	Argv        []string          `json:"argv"`
	Environment map[string]string `json:"environment"`
	Warnings    []string          `json:"warnings"`
	Plan        bookPlan          `json:"plan"`
	Earlier     []struct {
		Run  string   `json:"run"`
		Plan bookPlan `json:"plan"`
	} `json:"earlier_runs"`
	Server struct {
		URL     string `json:"url"`
		Model   string `json:"model"`
		Engine  string `json:"engine"`
		Version string `json:"version"`
	} `json:"server"`
	Points []bookRow `json:"points"`
}

// bookPlan is how a sweep was to measure its points.
type bookPlan struct {
	Dataset       string   `json:"dataset"`
	DatasetPath   string   `json:"dataset_path"`
	Select        string   `json:"select"`
	Shard         string   `json:"shard"`
	Conversations int      `json:"conversations"`
	Requests      int      `json:"requests_per_point"`
	Points        []string `json:"points"`
	TopP          *float64 `json:"top_p"`
	TopK          *int     `json:"top_k"`
	OutputLength  int      `json:"output_length_tokens"`
	Driver        string   `json:"driver"`
	Completions   bool     `json:"completions"`
	CacheSalt     bool     `json:"cache_salt"`
}

// bookRow is one point of sweep.json.
type bookRow struct {
	Run    string `json:"run"`
	State  string `json:"state"`
	Folder string `json:"folder"`
	Reason string `json:"reason"`
	collector.Summary
}

// readBook reads sweep.json of a folder; nil where there is none. note says that it
// cannot be read: the points speak for themselves then.
func readBook(dir string) (b *book, note string) {
	text, err := os.ReadFile(filepath.Join(dir, collector.FileBook))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ""
	}
	if err == nil {
		b = new(book)
		err = json.Unmarshal(text, b)
	}
	if err != nil {
		return nil, fmt.Sprintf("%s could not be read, so the plan and the points that were not run are unknown", collector.FileBook)
	}
	return b, ""
}

// row returns the row of a point's folder.
func (b *book) row(folder string) *bookRow {
	if b == nil {
		return nil
	}
	for i := range b.Points {
		if b.Points[i].Folder == folder {
			return &b.Points[i]
		}
	}
	return nil
}
