package collector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	weightIndex = "model.safetensors.index.json"
	modelConfig = "config.json"
)

// Checkpoint describes the model folder for configuration.json: its path, its
// size in bytes, and the SHA-256 of its weight index, or else of its config.json.
// It is nil without a path, and the path alone for what is not a folder (a hub
// name) or cannot be read. Source: specdec_bench utils.py.
func Checkpoint(dir string) Object {
	if dir == "" {
		return nil
	}
	full, err := readCheckpoint(dir)
	if err != nil {
		return Object{{"path", dir}}
	}
	return full
}

func readCheckpoint(dir string) (Object, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a folder", dir)
	}
	var source, sum any
	var size int64
	for _, name := range []string{weightIndex, modelConfig} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256(text)
		source, sum = name, hex.EncodeToString(digest[:])
		if name == weightIndex {
			size, err = indexedSize(dir, text)
		} else {
			size, err = folderSize(dir)
		}
		if err != nil {
			return nil, err
		}
		break
	}
	if source == nil {
		if size, err = folderSize(dir); err != nil {
			return nil, err
		}
	}
	return Object{{"path", dir}, {"size_bytes", size}, {"index_sha256", sum}, {"index_source", source}}, nil
}

// indexedSize is the size of the index and of the existing shards that it names.
func indexedSize(dir string, index []byte) (int64, error) {
	var parsed struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil {
		return 0, err
	}
	size := int64(len(index))
	seen := map[string]bool{}
	for _, shard := range parsed.WeightMap {
		if seen[shard] {
			continue
		}
		seen[shard] = true
		info, err := os.Stat(filepath.Join(dir, shard))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// folderSize is the size of all files below a folder; links to files count as
// what they point to, as in a Hugging Face cache.
func folderSize(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			size += info.Size()
		}
		return nil
	})
	return size, err
}
