package topologies

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/goccy/go-yaml/ast"
)

// A check looks at one field of one file before compose-go does, so that every
// mistake has a place. compose-go names at best the path of what it refuses.
type check func(value) *FileError

// topFields are the keys that mean something at the top of a compose file.
var topFields = map[string]check{
	"name":     text("a name such as account-service"),
	"services": eachField(mapping(serviceFields, serviceReasons, knownServiceFields)),
	"configs":  eachField(mapping(configFields, nil, yamlNames[types.ConfigObjConfig]())),
	"networks": oneNetwork,
	"x-hosts":  eachField(mapping(hostFields, nil, nil)),
}

// topReasons say what to do instead of what Compose knows and we do not.
var topReasons = map[string]string{
	"version": "obsolete in Compose: remove the line",
	"volumes": "nothing outlives a play: put files in with configs:, scratch space with tmpfs:",
	"secrets": "put files in with configs:",
	"include": "name the file as an overlay instead",
	"x-host":  "did you mean \"x-hosts\"?",
}

// serviceFields are the service's keys that a node is made of.
var serviceFields = map[string]check{
	"image":             text("an image such as nginx:1.22.1"),
	"entrypoint":        commandLine,
	"command":           commandLine,
	"environment":       pairs("a value: nothing is taken from the shell that runs relapse"),
	"user":              text("a user such as nobody or 65534:65534"),
	"working_dir":       folder,
	"configs":           listOf(either(text("a config's name"), mapping(mountFields, mountReasons, nil))),
	"depends_on":        dependsOn,
	"expose":            listOf(text("a port such as 8080")),
	"links":             listOf(text("a service's name")),
	"networks":          networkNames,
	"cgroup_parent":     text("the name of a host under x-hosts"),
	"mem_limit":         size,
	"cpus":              cores,
	"cap_add":           listOf(capability),
	"cap_drop":          listOf(onlyText("ALL", "all capabilities are dropped from every node; cap_add gives some back")),
	"read_only":         boolean,
	"tmpfs":             either(scratch, listOf(scratch)),
	"ulimits":           mapping(map[string]check{"nofile": openFiles}, nil, nil),
	"restart":           restartPolicy,
	"oom_score_adj":     oomScoreAdj,
	"stop_grace_period": duration,
	"labels":            pairs("a value"),
	"x-debian":          listOf(text("a Debian package such as nginx-light")),
}

// serviceReasons say what to do instead of what Compose knows and we do not.
var serviceReasons = map[string]string{
	"ports":          "nothing is published; dial the node's address",
	"volumes":        "nothing outlives a play: put files in with configs:, scratch space with tmpfs:",
	"build":          "name an image, with x-debian: for machines without a registry, or image: relapse for our own services",
	"healthcheck":    "whether a node answers is asked from outside: label relapse.probe",
	"container_name": "the service's own name is the node's name",
	"hostname":       "the service's own name is the node's name",
	"extra_hosts":    "links: writes the hosts file",
	"network_mode":   "all nodes share one closed network",
	"privileged":     "cap_add: gives single capabilities",
	"deploy":         "use mem_limit, cpus and cgroup_parent; write each replica as a service of its own",
	"scale":          "write each replica as a service of its own",
	"env_file":       "write environment: out, so that the topology is one readable file",
	"label_file":     "write labels: out",
	"extends":        "use a yaml anchor or an overlay",
	"profiles":       "use an overlay",
	"secrets":        "put files in with configs:",
	"sysctls":        "a node shares the machine's settings with all others",
}

var configFields = map[string]check{
	"file":    text("a file's path, relative to the folder of compose.yaml"),
	"content": text("the file's text"),
}

var mountFields = map[string]check{
	"source": text("a config's name"),
	"target": text("a path such as /etc/nginx/nginx.conf"),
	"mode":   fileMode,
}

var mountReasons = map[string]string{
	"uid": "files belong to root; mode: says who may read them",
	"gid": "files belong to root; mode: says who may read them",
}

var hostFields = map[string]check{"memory": size, "cpus": cores, "oom_kill_disable": boolean}

// knownServiceFields tells a field that Compose has, and we refuse, from a slip.
var knownServiceFields = yamlNames[types.ServiceConfig]()

// checkFields refuses what compose-go would refuse without a place, and what it
// would accept although it has no meaning here.
func (d *document) checkFields() *FileError {
	root := d.value("", d.root, d.root)
	fields, ok := root.fields()
	if !ok {
		return d.fail(d.root, "want a mapping, got "+root.kind(), "a compose file begins with services:")
	}
	if err := d.checkVariables(); err != nil {
		return err
	}
	for _, f := range fields {
		if strings.HasPrefix(f.name, "x-") && topFields[f.name] == nil && holdsAnchor(f.key, d.root) {
			continue // the Compose custom for a shared part
		}
		if err := checkField(f, topFields, topReasons, yamlNames[types.Project]()); err != nil {
			return err
		}
	}
	return nil
}

func checkField(f field, supported map[string]check, reasons map[string]string, known []string) *FileError {
	c, ok := supported[f.name]
	if !ok {
		if reason := reasons[f.name]; reason != "" {
			return f.failKey("not supported", reason)
		}
		names := slices.Sorted(maps.Keys(supported))
		if slices.Contains(known, f.name) {
			return f.failKey("not supported", "Compose has it, but here it would change nothing; supported: "+strings.Join(names, ", "))
		}
		return f.failKey("unknown field", suggest(f.name, names))
	}
	if f.tag == "!reset" {
		return nil // an overlay takes the field away
	}
	return c(f.value)
}

// holdsAnchor says whether the top-level field under key defines an anchor.
func holdsAnchor(key, root ast.Node) bool {
	m, ok := root.(*ast.MappingNode)
	if !ok {
		return false
	}
	found := false
	for _, kv := range m.Values {
		if kv.Key == key {
			ast.Walk(visitor(func(n ast.Node) {
				_, isAnchor := n.(*ast.AnchorNode)
				found = found || isAnchor
			}), kv.Value)
		}
	}
	return found
}

// mapping checks a mapping's fields, each by its own rule.
func mapping(supported map[string]check, reasons map[string]string, known []string) check {
	return func(v value) *FileError {
		fields, ok := v.fields()
		if !ok {
			return v.fail("want a mapping, got "+v.kind(), "fields: "+strings.Join(slices.Sorted(maps.Keys(supported)), ", "))
		}
		for _, f := range fields {
			if err := checkField(f, supported, reasons, known); err != nil {
				return err
			}
		}
		return nil
	}
}

// eachField checks every value of a mapping whose keys are names given freely.
func eachField(c check) check {
	return func(v value) *FileError {
		fields, ok := v.fields()
		if !ok {
			return v.fail("want a mapping, got "+v.kind(), "write one name a line, each with its fields below it")
		}
		for _, f := range fields {
			if f.tag == "!reset" {
				continue
			}
			if err := c(f.value); err != nil {
				return err
			}
		}
		return nil
	}
}

func listOf(c check) check {
	return func(v value) *FileError {
		items, ok := v.items()
		if !ok {
			return v.fail("want a list, got "+v.kind(), "write [one, two] or one \"- item\" a line")
		}
		for _, item := range items {
			if err := c(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// either takes text by the first rule and anything else by the second.
func either(ifText, otherwise check) check {
	return func(v value) *FileError {
		if _, ok := v.text(); ok {
			return ifText(v)
		}
		return otherwise(v)
	}
}

func textOrList(what string) check { return either(text(what), listOf(text(what))) }

func text(what string) check {
	return func(v value) *FileError {
		if s, ok := v.text(); !ok || strings.TrimSpace(s) == "" {
			return v.fail("want "+what+", got "+v.kindOrEmpty(), "")
		}
		return nil
	}
}

func (v value) kindOrEmpty() string {
	if _, ok := v.text(); ok {
		return "an empty text"
	}
	return v.kind()
}

func onlyText(want, hint string) check {
	return func(v value) *FileError {
		if s, ok := v.text(); !ok || s != want {
			return v.fail(fmt.Sprintf("only %s can stand here", want), hint)
		}
		return nil
	}
}

// yamlNames are the keys that compose-go's own type knows.
func yamlNames[T any]() []string {
	var out []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name != "" && name != "-" && !strings.HasPrefix(name, "#") {
			out = append(out, name)
		}
	}
	return out
}
