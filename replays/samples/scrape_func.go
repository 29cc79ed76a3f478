package samples

import "context"

type funcSource func() (map[string]float64, error)

func (f funcSource) scrape(_ context.Context, to *sink) error {
	values, err := f()
	if err != nil {
		return err
	}
	for name, v := range values {
		to.add(v, name)
	}
	return nil
}

func (funcSource) close() {}
