// Package services runs the services of our own that stand in a topology for
// programs that cannot be had, such as the application behind a documented
// outage, and the load generators that play the users of one.
//
// Each service is a package below this one. It registers itself, and runs in
// its container as "relapse service NAME". Where a service waits for the time
// that the documented program would have computed, its documentation says that
// the cost is modelled.
package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// RunFunc runs a service until its context ends. The arguments are the ones
// after the service's name; a cancelled context is a clean end and no error.
type RunFunc func(ctx context.Context, args []string) error

// Service is one registered service.
type Service struct {
	Name    string
	Summary string // one line
	run     RunFunc
}

var registered []Service

// Register adds a service; packages of services call it from init. It panics on
// a name that is taken, since two services of one name are a mistake in the
// source.
func Register(name, summary string, run RunFunc) {
	if _, ok := find(name); ok {
		panic(fmt.Sprintf("service %q is registered twice", name))
	}
	registered = append(registered, Service{Name: name, Summary: summary, run: run})
}

// List gives the registered services, sorted by name.
func List() []Service {
	out := slices.Clone(registered)
	slices.SortFunc(out, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// UnknownServiceError says that no service of the name is registered.
type UnknownServiceError struct {
	Name  string
	Known []string
}

func (e *UnknownServiceError) Error() string {
	return fmt.Sprintf("no service %q; known: %s", e.Name, strings.Join(e.Known, ", "))
}

// Run runs the named service until the context ends or the service fails.
func Run(ctx context.Context, name string, args []string) error {
	service, ok := find(name)
	if !ok {
		unknown := &UnknownServiceError{Name: name}
		for _, s := range List() {
			unknown.Known = append(unknown.Known, s.Name)
		}
		return unknown
	}
	return service.run(ctx, args)
}

func find(name string) (Service, bool) {
	i := slices.IndexFunc(registered, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return registered[i], true
}
