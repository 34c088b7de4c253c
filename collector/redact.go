package collector

import (
	"encoding/json"
	"strings"
)

// redacted stands for a secret value in configuration.json.
const redacted = "***REDACTED***"

// secretParts make a key secret; openKeys are the exceptions. Source:
// specdec_bench utils.py.
var (
	secretParts = [...]string{"token", "key", "secret", "password"}
	openKeys    = [...]string{"tokenizer", "tokenizer_path", "tokenizer_mode", "tokenizer_revision"}
)

// SecretKey says whether the values of a key are redacted. It errs on the safe
// side as specdec_bench does: max_num_batched_tokens is secret.
func SecretKey(key string) bool {
	key = strings.ToLower(key)
	for _, open := range openKeys {
		if key == open {
			return false
		}
	}
	for _, part := range secretParts {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// Redact returns a copy of a value with the values of secret keys replaced, at
// any depth of objects and lists. The value is one of AppendIndented.
func Redact(v any) any {
	switch v := v.(type) {
	case Object:
		return redactObject(v)
	case []Object:
		list := make([]any, len(v))
		for i, o := range v {
			list[i] = redactObject(o)
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = Redact(item)
		}
		return list
	case json.RawMessage:
		if decoded, err := DecodeOrdered(v); err == nil {
			return Redact(decoded)
		}
	}
	return v
}

func redactObject(o Object) Object {
	out := make(Object, len(o))
	for i, m := range o {
		out[i] = Member{m.Key, redacted}
		if !SecretKey(m.Key) {
			out[i].Value = Redact(m.Value)
		}
	}
	return out
}

// RedactArgs returns a copy of a command line with secrets replaced: the argument
// after a secret --flag, whatever it is, and the value of a secret --flag=value.
// Source: specdec_bench utils.py.
func RedactArgs(args []string) []string {
	out := make([]string, len(args))
	next := false
	for i, arg := range args {
		out[i] = arg
		if next {
			out[i], next = redacted, false
			continue
		}
		flag, isFlag := strings.CutPrefix(arg, "--")
		name, _, hasValue := strings.Cut(flag, "=")
		if !isFlag || !SecretKey(name) {
			continue
		}
		if hasValue {
			out[i] = "--" + name + "=" + redacted
			continue
		}
		next = true
	}
	return out
}

// StripUserinfo removes the credentials from a URL, with or without its scheme:
// "http://user:password@host/" becomes "http://host/".
func StripUserinfo(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "", url
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, `/?#`)
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	return scheme + rest[at+1:]
}

// stripArgs removes credentials from the URLs on a command line: any argument or
// --flag=value that has a scheme, and the value of --url without one. It changes args.
func stripArgs(args []string) []string {
	for i, arg := range args {
		flag, value, hasValue := strings.Cut(arg, "=")
		switch {
		case hasValue && strings.HasPrefix(flag, "--") && (flag == "--url" || strings.Contains(value, "://")):
			args[i] = flag + "=" + StripUserinfo(value)
		case strings.Contains(arg, "://") || i > 0 && args[i-1] == "--url":
			args[i] = StripUserinfo(arg)
		}
	}
	return args
}
