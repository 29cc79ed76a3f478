package topologies

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A run keeps a folder outside the engine: the files that its containers mount,
// and its labels, so that a sweep knows whose it is even when no container came
// to be. Files are mounted and not copied, because the engine refuses to copy
// into a read-only container and takes 0.1 s for each copy.

// cacheFolder is ours for what can be made again.
func cacheFolder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "relapse")
}

func runFolder(run string) string { return filepath.Join(cacheFolder(), "runs", run) }

const labelsFile = "labels.json"

// createRunFolder makes the folder under another name first, so that whoever
// sees it under its own can tell whose it is.
func createRunFolder(labels map[string]string) (string, error) {
	folder := runFolder(labels[LabelRun])
	content, err := json.Marshal(labels)
	if err != nil {
		return "", fmt.Errorf("folder of the run: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", fmt.Errorf("folder of the run: %w", err)
	}
	unnamed, err := os.MkdirTemp(filepath.Dir(folder), unnamedFolder)
	if err != nil {
		return "", fmt.Errorf("folder of the run: %w", err)
	}
	err = os.WriteFile(filepath.Join(unnamed, labelsFile), content, 0o600)
	if err == nil {
		err = os.Rename(unnamed, folder)
	}
	if err != nil {
		_ = os.RemoveAll(unnamed)
		return "", fmt.Errorf("folder of the run: %w; is another run of this id still going?", err)
	}
	return folder, nil
}

// unnamedFolder begins the names of folders that are about to be given another.
const unnamedFolder = ".new-"

// runFolders gives the labels of every run that has a folder. One whose labels
// cannot be read is taken for one without an owner, that is, a dead one.
func runFolders() ([]map[string]string, error) {
	entries, err := os.ReadDir(filepath.Join(cacheFolder(), "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("folders of runs: %w", err)
	}
	var all []map[string]string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unnamedFolder) {
			// Of a tool that died within a millisecond. One that is at it is younger.
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = os.RemoveAll(runFolder(entry.Name()))
			}
			continue
		}
		labels := map[string]string{}
		content, err := os.ReadFile(filepath.Join(runFolder(entry.Name()), labelsFile))
		if err == nil {
			err = json.Unmarshal(content, &labels)
		}
		if err != nil {
			labels = map[string]string{}
		}
		labels[LabelRun] = entry.Name()
		all = append(all, labels)
	}
	return all, nil
}

func nodeFile(folder, node string, i int) string {
	return filepath.Join(folder, node, strconv.Itoa(i))
}

// writeFiles writes what the node's container will mount. The folder is closed
// to other users of the machine; the files have the mode that the node wants,
// since its program may run as somebody else.
func writeFiles(folder string, node *Node) error {
	if len(node.Files) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(folder, node.Name), 0o700); err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	for i, file := range node.Files {
		mode := fs.FileMode(file.Mode).Perm()
		if mode == 0 {
			mode = 0o644
		}
		path := nodeFile(folder, node.Name, i)
		if err := os.WriteFile(path, file.Content, mode); err != nil {
			return fmt.Errorf("node %s: file %s: %w", node.Name, file.Path, err)
		}
		// What the umask took away, the program in the container may need.
		if err := os.Chmod(path, mode); err != nil {
			return fmt.Errorf("node %s: file %s: %w", node.Name, file.Path, err)
		}
	}
	return nil
}
