package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"spectap/collector"
)

// hidden stands for a secret on a command line that is shown or kept.
const hidden = "***REDACTED***"

// isSecretName tells whether a name's values are secret: api-key and HF_TOKEN
// are, max-num-batched-tokens and spec-tokens are not.
func isSecretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) })
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains([]string{"key", "keys", "apikey", "token", "secret", "secrets", "password", "passwd", "credentials"}, word)
	})
}

// assignment is NAME=value, with or without dashes before it.
var assignment = regexp.MustCompile(`(?s)^([-A-Za-z0-9_.]+)=(.*)$`)

// redactWords returns a command line without its secrets: all values of a secret
// option, secret members of JSON values, NAME=value with a secret name, and the
// credentials of URLs. --server_cmd is a command line within it.
func redactWords(words []string) []string {
	out := make([]string, len(words))
	inSecret, inCommand := false, false
	for i, word := range words {
		if isOption(word) {
			inSecret, inCommand = false, false
			if !strings.Contains(word, "=") {
				inSecret = isSecretName(word)
				inCommand = strings.ReplaceAll(word, "-", "_") == "__server_cmd"
			}
			out[i] = redactAssignment(word)
			continue
		}
		switch {
		case inSecret && word != "--":
			out[i] = hidden
		case inCommand:
			out[i] = redactCommand(word)
			inCommand = false
		default:
			out[i] = redactAssignment(word)
		}
	}
	return out
}

// redactAssignment redacts one word that stands for itself.
func redactAssignment(word string) string {
	m := assignment.FindStringSubmatch(word)
	switch {
	case m == nil:
		return redactValue(word)
	case isSecretName(m[1]):
		return m[1] + "=" + hidden
	case strings.ReplaceAll(m[1], "-", "_") == "__server_cmd":
		return m[1] + "=" + redactCommand(m[2])
	}
	return m[1] + "=" + redactValue(m[2])
}

func redactCommand(text string) string {
	words, err := splitWords(text)
	if err != nil {
		return hidden
	}
	return joinWords(redactWords(words))
}

// redactValue redacts JSON objects and URLs.
func redactValue(value string) string {
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		var object map[string]any
		if json.Unmarshal([]byte(value), &object) == nil && hideMembers(object) {
			text, _ := json.Marshal(object) // it came from JSON
			return string(text)
		}
		return value
	}
	if strings.Contains(value, "://") {
		return collector.StripUserinfo(value)
	}
	return value
}

// hideMembers replaces the secret members of an object, at any depth, and tells
// whether there were any.
func hideMembers(v any) (found bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if isSecretName(name) {
				v[name], found = hidden, true
				continue
			}
			found = hideMembers(member) || found
		}
	case []any:
		for _, item := range v {
			found = hideMembers(item) || found
		}
	}
	return found
}

// secretsOf collects the secrets of a command line and of an environment that
// may turn up in a server's log.
func secretsOf(args []string, env map[string]string) []string {
	var secrets []string
	add := func(value string) {
		if len(value) >= 6 { // a shorter one would blot out ordinary text
			secrets = append(secrets, value)
		}
	}
	for _, o := range parseOptions(args) {
		if isSecretName(o.name) {
			for _, value := range o.values {
				add(value)
			}
		}
	}
	for name, value := range env {
		if isSecretName(name) {
			add(value)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}

// hide replaces secrets in a text.
func hide(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}
