package collector

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// RunMarks are the files by which specdec_bench's uploader knows a run. What copies
// or makes a run writes them last: half a run is none.
func RunMarks() []string { return []string{FileAcceptance, FileTiming, FileConfiguration} }

// MadeOfRecords says that a folder holds files that are made of records and that
// specdec_bench does not know: if its records are not there, they are lost or elsewhere.
func MadeOfRecords(dir string) bool {
	return slices.ContainsFunc([]string{FileSpeculation, FilePerformance}, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// RunFolder is a folder that specdec_bench's uploader takes for one run.
type RunFolder struct {
	Path string // below the given folder, "." for itself
	Key  string // where its files go: prefix/<given folder's name>/[sweep/]run
}

// RunFolders returns what specdec_bench's upload_to_s3.py takes for runs among the
// files below a folder, sorted by name. A run folder holds configuration.json,
// timing.json or acceptance_rate.json. The given folder itself is one and hides
// all below it; else its sub-folders are (flat), and those of a sub-folder that is
// none (sweep). Nothing deeper is looked at. files are paths below the folder, with
// slashes. Source: metric-parity 7.3.
func RunFolders(files []string, prefix, folder string) []RunFolder {
	marked := make(map[string]bool)
	for _, file := range files {
		if slices.Contains(RunMarks(), path.Base(file)) {
			marked[path.Dir(file)] = true
		}
	}
	top := path.Join(prefix, folder)
	if marked["."] {
		return []RunFolder{{Path: ".", Key: top}}
	}
	var runs []RunFolder
	for dir := range marked {
		sweep, below := path.Split(dir)
		if strings.Contains(path.Clean(sweep), "/") || below == "" || marked[path.Clean(sweep)] {
			continue // too deep, or inside a run
		}
		runs = append(runs, RunFolder{Path: dir, Key: path.Join(top, dir)})
	}
	slices.SortFunc(runs, func(a, b RunFolder) int { return strings.Compare(a.Path, b.Path) })
	return runs
}

// MissingProvenance names what a run's configuration.json lacks for
// specdec_bench's uploader: a container_image that is not empty. A text that is
// no JSON object, or nil for no file, lacks everything. Source: metric-parity 7.3.
func MissingProvenance(configuration []byte) []string {
	var c struct {
		Image any `json:"container_image"`
	}
	if err := json.Unmarshal(configuration, &c); err != nil || c.Image == nil || c.Image == "" {
		return []string{"container_image"}
	}
	return nil
}
