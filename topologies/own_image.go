package topologies

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Our own image holds nothing but the place that the binary is mounted at (see
// [program]): it is the same for every build, and the engine is given it once.

const (
	ownEntrypoint = "/relapse"
	// ownImageTag names what is in the image; another content is another tag.
	ownImageTag = "base-1"
	// labelImage marks images that we made: "own" or "debian".
	labelImage = "relapse.image"
	// ownImageKept is the age at which an image with another content is removed.
	ownImageKept = 24 * time.Hour
)

func ensureOwnImage(ctx context.Context, docker *client.Client, o Options) (ImageUse, string, error) {
	digest, err := binaryDigest(o.Binary)
	if err != nil {
		return ImageUse{}, "", fmt.Errorf("image %s: %w", OwnImage, err)
	}
	if err := checkStatic(o.Binary); err != nil {
		return ImageUse{}, "", fmt.Errorf("%w %s: make it of %s: %w", ErrNoImage, OwnImage, o.Binary, err)
	}
	name := OwnImage + ":" + ownImageTag
	use, err := inspectImage(ctx, docker, name, ImageOwn)
	if errdefs.IsNotFound(err) {
		began := time.Now()
		if err := loadOwnImage(ctx, docker, name); err != nil {
			return ImageUse{}, "", fmt.Errorf("%w %s: load it: %w", ErrNoImage, OwnImage, err)
		}
		o.Progress(fmt.Sprintf("image %s: loaded (%s)", OwnImage, time.Since(began).Round(10*time.Millisecond)))
		removeOldOwnImages(ctx, docker, name)
		use, err = inspectImage(ctx, docker, name, ImageOwn)
	}
	if err != nil {
		return ImageUse{}, "", err
	}
	use.Ref = OwnImage
	use.Versions = map[string]string{"relapse": "sha256:" + digest}
	return use, name, nil
}

func loadOwnImage(ctx context.Context, docker *client.Client, name string) error {
	config := imageConfig{
		Entrypoint: []string{ownEntrypoint},
		Env:        []string{"PATH=/"},
		WorkingDir: "/",
		Labels:     map[string]string{labelImage: "own"},
	}
	return loadImage(ctx, docker, name, config, func(w io.Writer) error {
		layer := tar.NewWriter(w)
		if err := layer.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
			return err
		}
		if err := layer.WriteHeader(&tar.Header{Name: ownEntrypoint[1:], Typeflag: tar.TypeReg, Mode: 0o755}); err != nil {
			return err
		}
		return layer.Close()
	})
}

// checkStatic refuses a binary that needs a loader: in an image that holds
// nothing else it fails with "no such file", which says nothing to anybody.
func checkStatic(binary string) error {
	file, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("it is no Linux program: %w", err)
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New("it is linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// removeOldOwnImages removes images of other tools of ours. It is a courtesy: whatever is still in use, or fails, stays.
func removeOldOwnImages(ctx context.Context, docker *client.Client, current string) {
	images, err := docker.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelImage+"=own"),
	})
	if err != nil {
		return
	}
	for _, image := range images.Items {
		for _, tag := range image.RepoTags {
			if tag != current && time.Since(time.Unix(image.Created, 0)) > ownImageKept {
				_, _ = docker.ImageRemove(ctx, tag, client.ImageRemoveOptions{})
			}
		}
	}
}

// binaryDigests remembers digests by what the file looked like: reading tens of
// megabytes again for every start of a run takes longer than most else of it.
var binaryDigests sync.Map // binaryLook -> string

type binaryLook struct {
	path     string
	size     int64
	modified time.Time
}

func binaryDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	look := binaryLook{path, info.Size(), info.ModTime()}
	if digest, known := binaryDigests.Load(look); known {
		return digest.(string), nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	binaryDigests.Store(look, digest)
	return digest, nil
}
