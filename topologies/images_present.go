package topologies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// PresentImages says what this machine has for the images of a topology, sorted by
// reference: our own, which is made of the binary, and those that the engine holds.
// Others are left out: no registry is asked, and nothing is made. Where no engine
// answers, our own comes alone, with an error that wraps [ErrNoEngine].
func PresentImages(ctx context.Context, t *Topology, binary string) ([]ImageUse, error) {
	packages := map[string][]string{} // by image
	var refs, all []string
	for _, node := range t.Nodes {
		if !slices.Contains(refs, node.Image) {
			refs = append(refs, node.Image)
		}
		packages[node.Image] = append(packages[node.Image], node.Debian...)
		all = append(all, node.Debian...)
	}
	slices.Sort(refs)
	slices.Sort(all)
	var uses []ImageUse
	if slices.Contains(refs, OwnImage) {
		digest, err := binaryDigest(binary)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", OwnImage, err)
		}
		uses = append(uses, ImageUse{Ref: OwnImage, Source: ImageOwn, Versions: map[string]string{"relapse": "sha256:" + digest}})
	}
	docker, err := dialEngine(ctx)
	if err != nil {
		return uses, err
	}
	defer docker.Close()
	debian := &debianImage{docker: docker, packages: slices.Compact(all)}
	for _, ref := range refs {
		if ref == OwnImage {
			continue
		}
		use, err := inspectImage(ctx, docker, ref, ImagePresent)
		if errdefs.IsNotFound(err) && len(packages[ref]) > 0 {
			if found, _, findErr := debian.find(ctx, ref, packages[ref]); findErr == nil {
				use, err = found, nil
			}
		}
		switch {
		case err == nil:
			uses = append(uses, use)
		case !errdefs.IsNotFound(err):
			return uses, err
		}
	}
	slices.SortFunc(uses, func(a, b ImageUse) int { return strings.Compare(a.Ref, b.Ref) })
	return uses, nil
}
