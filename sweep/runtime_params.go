package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// runtimeParams is specdec_bench's YAML of --runtime_params.
type runtimeParams struct {
	root        *yaml.Node // the top-level mapping; nil: no file, or an empty one
	temperature *float64
	topP        *float64
	topK        *int
	template    json.RawMessage // chat_template_args as JSON; nil: none
	numSamples  *int
	warnings    []string
}

// The sections of the YAML, and what of each is used.
const (
	sectionSampling = "sampling_kwargs"
	sectionTemplate = "chat_template_args"
	sectionDataset  = "dataset_kwargs"
	sectionEngine   = "engine_args"
)

// readRuntimeParams reads the file; "" is no file.
func readRuntimeParams(path string) (runtimeParams, error) {
	if path == "" {
		return runtimeParams{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return runtimeParams{}, fmt.Errorf("cannot read --runtime_params: %w", err)
	}
	p, err := parseRuntimeParams(text)
	if err != nil {
		return p, fmt.Errorf("cannot use --runtime_params %q: %w", path, err)
	}
	return p, nil
}

// parseRuntimeParams reads the text. An empty file is {}.
func parseRuntimeParams(text []byte) (runtimeParams, error) {
	var p runtimeParams
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return p, fmt.Errorf("not YAML: %w", err)
	}
	if len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" {
		return p, nil
	}
	if p.root = document.Content[0]; p.root.Kind != yaml.MappingNode {
		return p, fmt.Errorf("line %d: want a mapping of sections", p.root.Line)
	}
	if _, err := jsonOf(p.root, "", nil); err != nil {
		return p, err
	}
	var errs []error
	for i := 0; i+1 < len(p.root.Content); i += 2 {
		errs = append(errs, p.section(p.root.Content[i], follow(p.root.Content[i+1])))
	}
	return p, errors.Join(errs...)
}

// section reads one top-level member.
func (p *runtimeParams) section(key, value *yaml.Node) error {
	var read func(name string, v *yaml.Node) error
	switch key.Value {
	case sectionEngine:
		p.warn("engine_args are not used: they make an engine, and this server runs already")
		return nil
	case sectionSampling:
		read = p.sampling
	case sectionDataset:
		read = p.dataset
	case sectionTemplate:
		read = func(string, *yaml.Node) error { return nil }
	default:
		return fmt.Errorf("line %d: unknown section %q: want %s, %s, %s or %s", key.Line, key.Value,
			sectionSampling, sectionTemplate, sectionDataset, sectionEngine)
	}
	if value.ShortTag() == "!!null" {
		return nil
	}
	if value.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %s: want a mapping", value.Line, key.Value)
	}
	if key.Value == sectionTemplate && len(value.Content) > 0 {
		p.template, _ = jsonOf(value, "", nil) // checked with the whole file
	}
	if key.Value == sectionSampling {
		fallback := 1.0 // as the wrapper of specdec_bench: a mapping without temperature
		p.temperature = &fallback
	}
	var errs []error
	for i := 0; i+1 < len(value.Content); i += 2 {
		errs = append(errs, read(value.Content[i].Value, follow(value.Content[i+1])))
	}
	return errors.Join(errs...)
}

func (p *runtimeParams) sampling(name string, v *yaml.Node) error {
	bad := func(want string) error {
		return fmt.Errorf("line %d: %s %q: want %s", v.Line, name, v.Value, want)
	}
	var f float64
	var n int
	switch name {
	case "temperature":
		if v.Decode(&f) != nil || !(f >= 0 && f <= 100) {
			return bad("a number from 0")
		}
		p.temperature = &f
	case "top_p":
		if v.Decode(&f) != nil || !(f > 0 && f <= 1) {
			return bad("a number above 0 and at most 1")
		}
		p.topP = &f
	case "top_k":
		if v.Decode(&n) != nil || n < -1 {
			return bad("0 (off) or a positive whole number")
		}
		p.topK = &n
	default:
		p.warn(fmt.Sprintf("sampling_kwargs.%s is not used, as by specdec_bench's vLLM wrapper", name))
	}
	return nil
}

func (p *runtimeParams) dataset(name string, v *yaml.Node) error {
	if name != "num_samples" {
		p.warn(fmt.Sprintf("dataset_kwargs.%s is not used", name))
		return nil
	}
	var n int
	if v.ShortTag() == "!!null" {
		return nil
	}
	if v.Decode(&n) != nil {
		return fmt.Errorf("line %d: num_samples %q: want a whole number", v.Line, v.Value)
	}
	p.numSamples = &n
	return nil
}

func (p *runtimeParams) warn(text string) { p.warnings = append(p.warnings, "--runtime_params: "+text) }

// text returns the parsed YAML as JSON in its own order. As specdec_bench's
// command line does, what flags override is written into the sections that exist.
func (p runtimeParams) text(temperature, samples json.RawMessage) json.RawMessage {
	if p.root == nil {
		return json.RawMessage("{}")
	}
	set := map[string]json.RawMessage{}
	if temperature != nil {
		set[sectionSampling+".temperature"] = temperature
	}
	if samples != nil {
		set[sectionDataset+".num_samples"] = samples
	}
	text, _ := jsonOf(p.root, "", set) // checked when the file was read
	return text
}

// follow returns the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// jsonOf renders a node as JSON in its own order; set replaces or adds members
// by their path.
func jsonOf(n *yaml.Node, path string, set map[string]json.RawMessage) (json.RawMessage, error) {
	n = follow(n)
	switch n.Kind {
	case yaml.MappingNode:
		return jsonMapping(n, path, set)
	case yaml.SequenceNode:
		var b bytes.Buffer
		for i, item := range n.Content {
			text, err := jsonOf(item, path+"[]", nil)
			if err != nil {
				return nil, err
			}
			b.WriteByte(",["[btoi(i == 0)])
			b.Write(text)
		}
		if len(n.Content) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
		return b.Bytes(), nil
	}
	return jsonScalar(n)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func jsonMapping(n *yaml.Node, path string, set map[string]json.RawMessage) (json.RawMessage, error) {
	var members []string
	done := map[string]bool{}
	add := func(key string, value json.RawMessage) {
		name, _ := json.Marshal(key) // a string always marshals
		members = append(members, string(name)+":"+string(value))
		done[key] = true
	}
	prefix := path
	if prefix != "" {
		prefix += "."
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if n.Content[i].ShortTag() == "!!merge" {
			return nil, fmt.Errorf("line %d: merge keys (<<) are not read: write the members out", n.Content[i].Line)
		}
		value, overridden := set[prefix+key]
		if !overridden {
			var err error
			if value, err = jsonOf(n.Content[i+1], prefix+key, set); err != nil {
				return nil, err
			}
		}
		add(key, value)
	}
	for _, name := range []string{"temperature", "num_samples"} {
		if value, ok := set[prefix+name]; ok && !done[name] {
			add(name, value)
		}
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

// jsonScalar keeps the kind of a scalar: 1 and 1.0 differ in Python's JSON.
// The words of YAML 1.1 are booleans as for specdec_bench's reader, PyYAML: as
// a text, "off" would be true for a chat template.
func jsonScalar(n *yaml.Node) (json.RawMessage, error) {
	if n.Style == 0 { // neither quoted nor a block
		switch n.Value {
		case "yes", "Yes", "YES", "on", "On", "ON":
			return json.RawMessage("true"), nil
		case "no", "No", "NO", "off", "Off", "OFF":
			return json.RawMessage("false"), nil
		}
	}
	switch n.ShortTag() {
	case "!!null":
		return json.RawMessage("null"), nil
	case "!!bool":
		var v bool
		err := n.Decode(&v)
		return json.RawMessage(strconv.FormatBool(v)), err
	case "!!int":
		var v int64
		if err := n.Decode(&v); err == nil {
			return json.RawMessage(strconv.FormatInt(v, 10)), nil
		}
	case "!!float":
		var v float64
		if err := n.Decode(&v); err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Errorf("line %d: cannot use %q: want a finite number", n.Line, n.Value)
		}
		return pythonFloat(v), nil
	}
	text, err := json.Marshal(n.Value)
	return text, err
}

// pythonFloat writes a float as Python's repr does, as far as settings need it:
// the shortest text, with a point.
func pythonFloat(v float64) json.RawMessage {
	if abs := math.Abs(v); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return json.RawMessage(strconv.FormatFloat(v, 'e', -1, 64))
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.RawMessage(text)
}
