package topologies

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
)

// ErrNoImage says that an image of a topology cannot be had in any way.
var ErrNoImage = errors.New("no image")

// Where an image came from.
const (
	ImagePresent = "present" // the engine had it under the name that the compose file uses
	ImagePulled  = "pulled"
	ImageDebian  = "debian" // the same program from Debian packages
	ImageOwn     = "own"    // our own binary
	// ImageProgram is no image: nodes are processes, and the machine's own program
	// stands in for it.
	ImageProgram = "program"
)

// ImageUse says what a compose file's image was in one run.
type ImageUse struct {
	Ref      string            `json:"ref"`    // as the compose file names it
	Digest   string            `json:"digest"` // of the registry's manifest, else of the image or program
	Source   string            `json:"source"` // present, pulled, debian, own or program
	Versions map[string]string `json:"versions,omitempty"`
}

// A pull is given up when the registry has not answered at all, or when
// nothing has arrived for a while; a slow one may take its time.
const (
	pullAnswers = 5 * time.Second
	pullStalls  = 30 * time.Second
)

// EnsureImages gets the image of every node: one that the engine has is used,
// else it is pulled, and where no registry answers, the packages that the
// compose file names (x-debian) are put into an image of all of them. Our own
// image is made of [Options.Binary]. An error wraps [ErrNoImage] when an image
// cannot be had, and names all that was tried.
func EnsureImages(ctx context.Context, t *Topology, o Options) ([]ImageUse, error) {
	if o.Run == "" {
		o.Run = "images"
	}
	o, err := o.complete(t)
	if err != nil {
		return nil, err
	}
	docker, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	uses, _, err := ensureImages(ctx, docker, t, o)
	return uses, err
}

// ensureImages also gives, by the compose file's name, the name that the engine
// knows each image by.
func ensureImages(ctx context.Context, docker *client.Client, t *Topology, o Options) ([]ImageUse, map[string]string, error) {
	packages := map[string][]string{} // by image
	for _, node := range t.Nodes {
		packages[node.Image] = append(packages[node.Image], node.Debian...)
	}
	if len(o.Proxied) > 0 {
		packages[OwnImage] = nil
	}
	refs := make([]string, 0, len(packages))
	var all []string
	for ref, names := range packages {
		refs = append(refs, ref)
		all = append(all, names...)
	}
	slices.Sort(refs)
	slices.Sort(all)
	debian := &debianImage{docker: docker, packages: slices.Compact(all), progress: o.Progress}

	uses := make([]ImageUse, len(refs))
	names := make([]string, len(refs))
	group, ctx := errgroup.WithContext(ctx)
	for i, ref := range refs {
		group.Go(func() error {
			var err error
			if ref == OwnImage {
				uses[i], names[i], err = ensureOwnImage(ctx, docker, o)
			} else {
				uses[i], names[i], err = ensureImage(ctx, docker, ref, packages[ref], debian, o)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	local := map[string]string{}
	for i, ref := range refs {
		local[ref] = names[i]
	}
	return uses, local, nil
}

func ensureImage(ctx context.Context, docker *client.Client, ref string, packages []string, debian *debianImage, o Options) (ImageUse, string, error) {
	use, err := inspectImage(ctx, docker, ref, ImagePresent)
	if err == nil || !errdefs.IsNotFound(err) {
		return use, ref, err
	}
	// An image of packages was made because no registry answered. It is used
	// again without asking, so that every start does not wait for one in vain.
	if len(packages) > 0 {
		if use, name, err := debian.find(ctx, ref, packages); err == nil {
			return use, name, nil
		}
	}
	pullErr := pull(ctx, docker, ref, o.Progress)
	if pullErr == nil {
		use, err := inspectImage(ctx, docker, ref, ImagePulled)
		return use, ref, err
	}
	if ctx.Err() != nil {
		return ImageUse{}, "", ctx.Err()
	}
	if len(packages) == 0 {
		return ImageUse{}, "", fmt.Errorf("%w %s: the engine has none, the pull failed (%w), and its node names no Debian packages (x-debian); "+
			"`docker load` it on this machine, or connect the machine to a registry", ErrNoImage, ref, pullErr)
	}
	if err := debian.build(ctx); err != nil {
		if ctx.Err() != nil {
			return ImageUse{}, "", ctx.Err()
		}
		return ImageUse{}, "", fmt.Errorf("%w %s: the engine has none, the pull failed (%w), and so did an image of the Debian packages %s (%w); "+
			"`docker load` it on this machine, or connect the machine to a registry or a Debian mirror",
			ErrNoImage, ref, pullErr, strings.Join(debian.packages, ", "), err)
	}
	return debian.find(ctx, ref, packages)
}

func inspectImage(ctx context.Context, docker *client.Client, ref, source string) (ImageUse, error) {
	found, err := docker.ImageInspect(ctx, ref)
	if err != nil {
		return ImageUse{}, fmt.Errorf("image %s: %w", ref, err)
	}
	use := ImageUse{Ref: ref, Digest: found.ID, Source: source}
	if len(found.RepoDigests) > 0 {
		_, use.Digest, _ = strings.Cut(found.RepoDigests[0], "@")
	}
	return use, nil
}

func pull(ctx context.Context, docker *client.Client, ref string, progress func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(pullAnswers, func() {
		cancel(fmt.Errorf("the registry did not answer within %s", pullAnswers))
	})
	defer stalled.Stop()
	began := time.Now()
	response, err := docker.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err == nil {
		defer response.Close()
		for message, failure := range response.JSONMessages(ctx) {
			if failure == nil && message.Error != nil {
				failure = message.Error
			}
			if failure != nil {
				err = failure
				break
			}
			stalled.Reset(pullStalls)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		progress(fmt.Sprintf("image %s: pulled (%s)", ref, time.Since(began).Round(100*time.Millisecond)))
	}
	return err
}

// imageConfig is what an image of ours says of itself, as the engine reads it.
type imageConfig struct {
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

// loadImage gives the engine an image of one layer. The layer goes through a
// file, as the image names it by the digest of its content.
func loadImage(ctx context.Context, docker *client.Client, ref string, config imageConfig, layer func(io.Writer) error) error {
	spool, err := os.CreateTemp("", "relapse-layer-")
	if err != nil {
		return err
	}
	defer spool.Close()
	// Nobody else needs its name, and without one it cannot outlive us.
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	hash := sha256.New()
	if err := layer(io.MultiWriter(spool, hash)); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	described, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      time.Now().UTC().Format(time.RFC3339),
		"config":       config,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(hash.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}

	reader, writer := io.Pipe()
	go func() {
		archive := tar.NewWriter(writer)
		err := errors.Join(
			addFile(archive, "manifest.json", int64(len(manifest)), strings.NewReader(string(manifest))),
			addFile(archive, "config.json", int64(len(described)), strings.NewReader(string(described))),
			addFile(archive, "layer.tar", size, spool),
			archive.Close(),
		)
		writer.CloseWithError(err)
	}()
	defer reader.Close()
	result, err := docker.ImageLoad(ctx, reader, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer result.Close()
	decoder := json.NewDecoder(result)
	for {
		var message struct {
			Error string `json:"error"`
		}
		if err := decoder.Decode(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if message.Error != "" {
			return errors.New(message.Error)
		}
	}
}

func addFile(archive *tar.Writer, name string, size int64, content io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
