package collector

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// The folder of a point that failed is set aside as NAME.failed, with error.json.
const (
	FailedSuffix = ".failed"
	FileError    = "error.json"
)

// FailureReason is why a point was set aside, from error.json in its folder; "" where
// that does not say.
func FailureReason(dir string) string {
	var e struct {
		Reason string `json:"reason"`
	}
	text, err := os.ReadFile(filepath.Join(dir, FileError))
	if err != nil || json.Unmarshal(text, &e) != nil {
		return ""
	}
	return e.Reason
}
