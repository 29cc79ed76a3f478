package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBadComposeFiles holds that whatever stands in a topology's compose file, the
// tool refuses it as bad input, in time, and says where and what to do.
func TestBadComposeFiles(t *testing.T) {
	text := content(t, smallIncident, goodCompose)
	const image = "    image: memcached:1.6.18\n"
	var cases []badInput
	for _, c := range []struct{ name, field string }{
		{"cpus that are no number", "cpus: .nan"},
		{"endless cpus", "cpus: .inf"},
		{"cpus below zero", "cpus: -1"},
		{"cpus beyond all numbers", "cpus: 1e999"},
		{"cpus in words", "cpus: two"},
		{"a list of cpus", "cpus: [1]"},
		{"memory below zero", "mem_limit: -64m"},
		{"memory of nothing", "mem_limit: 0"},
		{"memory that is no number", "mem_limit: NaN"},
		{"memory in an unknown unit", "mem_limit: 64parsecs"},
		{"memory beyond all numbers", "mem_limit: 99999999999999999999g"},
		{"memory that is true", "mem_limit: true"},
		{"memory that is a mapping", "mem_limit: {}"},
		{"a score that is no whole number", "oom_score_adj: 1e3"},
		{"a score that is too high", "oom_score_adj: 5000"},
		{"a grace below zero", "stop_grace_period: -1s"},
		{"a grace in an unknown unit", "stop_grace_period: 1fortnight"},
		{"a grace beyond all time", "stop_grace_period: 99999999999h"},
		{"restarts that are a list", "restart: [always]"},
		{"read_only in words", "read_only: maybe"},
		{"scratch space at a relative path", "tmpfs: run"},
		{"scratch space at the root", "tmpfs: /"},
		{"scratch space that leads elsewhere", "tmpfs: [/run, /tmp/../etc]"},
		{"a working folder at a relative path", "working_dir: srv"},
		{"an unknown capability", "cap_add: [NET_ADMNI]"},
		{"all capabilities", "cap_add: [ALL]"},
		{"capabilities that are a text", "cap_add: NET_ADMIN"},
		{"a variable without a name", "environment: {\"\": x}"},
		{"a variable without a name, in a list", "environment: [\"=x\"]"},
		{"a variable with a sign in its name", "environment: {\"A=B\": x}"},
		{"a variable without a value", "environment: {A: }"},
		{"a variable that is a list", "environment: {A: [x]}"},
		{"files below zero", "ulimits: {nofile: -1}"},
		{"files beyond all numbers", "ulimits: {nofile: 99999999999999999999}"},
		{"files that are no number", "ulimits: {nofile: .nan}"},
		{"a node that waits for itself", "depends_on: [store]"},
		{"a node that waits for nobody", "depends_on: [sotre]"},
		{"a node linked to itself", "links: [store]"},
		{"a node linked to nobody", "links: [sotre]"},
		{"a node linked to a path", "links: [../store]"},
		{"a node that extends itself", "extends: {service: store}"},
		{"a node that extends another file", "extends: {file: /etc/passwd, service: store}"},
		{"a command with an open quote", "command: \"memcached '\""},
		{"a command of mappings", "command: [{a: b}]"},
		{"a user that is a list", "user: [root]"},
		{"a package that is a path", "x-debian: [../memcached]"},
		{"a package that is an option", "x-debian: [--force-all]"},
		{"ports that are published", "ports: [\"80:80\"]"},
		{"a folder of the machine", "volumes: [\"/:/host\"]"},
		{"all privileges", "privileged: true"},
		{"the machine's own network", "network_mode: host"},
		{"the machine's own processes", "pid: host"},
		{"a socket of the engine", "use_api_socket: true"},
		{"an unknown host", "cgroup_parent: ../../docker"},
		{"an image twice", "image: nginx:1.22.1"},
		{"a variable of the shell", "user: ${HOME}"},
		{"a config that is not there", "configs: [nowhere]"},
		{"a config by its path", "configs: [/etc/passwd]"},
		{"a config that is put at a relative path", "configs: [{source: players, target: etc/x}]"},
		{"a config that is put elsewhere than it says", "configs: [{source: players, target: /etc/../x}]"},
		{"a mode that is no mode", "configs: [{source: players, target: /x, mode: 9999}]"},
	} {
		cases = append(cases, badInput{name: goodCompose + ": " + c.name, file: goodCompose, old: image, new: image + "    " + c.field + "\n"})
	}
	const expose, measured = "    expose: [\"11211\"]\n", "relapse.metrics.port: \"11211\""
	const config = "    content: |\n      ask: {}\n"
	file := func(path string) string { return "    file: " + path + "\n" }
	cases = slices.Concat(otherBytes(goodCompose, text), otherYAML(goodCompose, text), cases, badValues(goodCompose, []value{
		{"no image", image, ""},
		{"a port beyond all ports", expose, "    expose: [65536]\n"},
		{"a port below zero", expose, "    expose: [-1]\n"},
		{"a port that is no number", expose, "    expose: [.nan]\n"},
		{"a port that is a mapping", expose, "    expose: {a: 1}\n"},
		{"a range of ports", expose, "    expose: [1-65535]\n"},
		{"no port that is linked to", expose, ""},
		{"a port to measure at beyond all ports", measured, "relapse.metrics.port: \"99999\""},
		{"a label that is a list", measured, "relapse.metrics.port: [1]"},
		{"a label that nothing reads", measured, "relapse.metrics.prot: \"1\""},
		{"an unknown tag", expose, "    expose: !secret [\"11211\"]\n"},
		{"an image that is a mapping", image, "    image: {a: b}\n"},
		{"a service that is a text", "  store:\n" + image, "  stroe: x\n  store:\n" + image},
		{"a service that is null", "  store:\n" + image, "  stroe:\n  store:\n" + image},
		{"services that are null", text, "name: line\nservices:\n"},
		{"services that are none", text, "name: line\nservices: {}\n"},
		{"services that are a list", text, "name: line\nservices: [store]\n"},
		{"a service twice", "services:\n", "services:\n  store: {image: nginx}\n"},
		{"a node named by a path", "  store:\n", "  ../store:\n"},
		{"a node named in capitals", "  store:\n", "  Store:\n"},
		{"a node with a name of 64 letters", "  store:\n", "  " + strings.Repeat("n", 64) + ":\n"},
		{"a topology named by a path", "name: line", "name: ../line"},
		{"a topology named by a list", "name: line", "name: [line]"},
		{"an old version", "name: line", "name: line\nversion: \"3\""},
		{"another file that is included", "name: line", "name: line\ninclude: [/etc/passwd]"},
		{"a config beside the folder", config, file("../incident.yaml")},
		{"a config further out", config, file("../../../../etc/passwd")},
		{"a config by an absolute path", config, file("/etc/passwd")},
		{"a config that is a folder", config, file(".")},
		{"a config of no file", config, file("nowhere.conf")},
		{"a config of a list", config, file("[a, b]")},
		{"a config of both", config, config + file("compose.yaml")},
		{"a config of neither", config, "    {}\n"},
		{"a config of the machine", config, "    external: true\n"},
		{"a config of a variable", config, "    environment: HOME\n"},
		{"hosts that are a list", "configs:\n", "x-hosts: [host-1]\nconfigs:\n"},
		{"a host that is named by a path", "configs:\n", "x-hosts: {../host: {memory: 1g}}\nconfigs:\n"},
		{"networks that are a list", "configs:\n", "networks: [a]\nconfigs:\n"},
	}))
	beside := func(name string, make func(folder string) error) badInput {
		return badInput{name: "line: " + name, file: "line", whole: true, change: make}
	}
	cases = append(cases,
		beside("a link to nowhere", func(f string) error { return os.Symlink("nowhere", filepath.Join(f, "link")) }),
		beside("a link to itself", func(f string) error { return os.Symlink("link", filepath.Join(f, "link")) }),
		beside("a link to a folder", func(f string) error { return os.Symlink("..", filepath.Join(f, "link")) }),
		beside("a link to a device", func(f string) error { return os.Symlink("/dev/zero", filepath.Join(f, "link")) }),
		beside("a file of 50 MB", func(f string) error {
			path := filepath.Join(f, "large")
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 50<<20))
		}),
	)
	refuse(t, cases, smallIncident, "compose.txt", badPlace, "show", "BAD")
}

// TestBadOverlays is the same of what is put over a compose file.
func TestBadOverlays(t *testing.T) {
	text := content(t, smallIncident, goodOverlay)
	const command = "    command: [service, account, --tries=2]\n"
	cases := slices.Concat(otherBytes(goodOverlay, text), otherYAML(goodOverlay, text), badValues(goodOverlay, []value{
		{"a service that is not there", "  server:\n", "  sevrer:\n"},
		{"a service that is taken away", text, "services: {store: !reset null}\n"},
		{"all services taken away", text, "services: !reset null\n"},
		{"services that are put in the place of all", text, "services: !override {server: {image: nginx}}\n"},
		{"a command of numbers", command, "    command: {a: b}\n"},
		{"a field that is not supported", command, command + "    volumes: [\"/:/host\"]\n"},
		{"a value without a unit", command, command + "    stop_grace_period: 5\n"},
		{"a field taken away that is needed", command, "    links: !reset []\n"},
		{"a port taken away that is linked to", text, "services: {store: {expose: !reset []}}\n"},
		{"a node that waits in a circle", command, command + "    depends_on: [store]\n  store:\n    depends_on: [server]\n"},
		{"a config that leads elsewhere", text, "configs: {players: {content: !reset null, file: ../alerts.yaml}}\n"},
		{"another name", text, "name: ../other\n" + text},
		{"an unknown tag", command, "    command: !!python/object [service]\n    cpus: !secret 1\n"},
	}))
	refuse(t, cases, smallIncident, "overlays.txt", badPlace, "show", "BAD")
}
