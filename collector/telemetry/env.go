package telemetry

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spectap/collector"
)

// settings reads the standard variables and keeps every problem, so that all
// are told at once. As the specification says, an empty value is an unset one.
// What the SDK reads itself is checked here too: it would go on with a default
// and print the value, of a header the secret.
type settings struct {
	env  map[string]string
	errs []error
}

func (s *settings) get(name string) string { return strings.TrimSpace(s.env[name]) }

// first returns the first of several variables that is set.
func (s *settings) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := s.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

func (s *settings) refuse(name, value, want string) {
	s.errs = append(s.errs, fmt.Errorf("cannot use %s %q: want %s", name, value, want))
}

// word returns a variable's value in lower case, which must be one of a list.
func (s *settings) word(name, byDefault string, allowed ...string) string {
	value := s.get(name)
	if value == "" {
		return byDefault
	}
	word := strings.ToLower(value)
	if !slices.Contains(allowed, word) {
		s.refuse(name, value, oneOf(allowed))
		return byDefault
	}
	return word
}

// mostCount is the largest number that a variable may have, of milliseconds some
// 24 days: far above it a time limit overflows.
const mostCount = math.MaxInt32

// count returns a whole number of at least least.
func (s *settings) count(name string, byDefault, least int) int {
	value := s.get(name)
	if value == "" {
		return byDefault
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > mostCount {
		s.refuse(name, value, fmt.Sprintf("a whole number from %d to %d", least, mostCount))
		return byDefault
	}
	return n
}

// milliseconds returns a duration that a variable has in milliseconds.
func (s *settings) milliseconds(name string, byDefault time.Duration) time.Duration {
	return time.Duration(s.count(name, int(byDefault/time.Millisecond), 1)) * time.Millisecond
}

// endpoint returns the parsed URL of the first variable that is set, nil where none is.
func (s *settings) endpoint(names ...string) *url.URL {
	name, value := s.first(names...)
	if name == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" {
		s.refuse(name, publicURL(value), "a URL such as http://collector:4317")
		return nil
	}
	return u
}

// publicURL is a URL without what may be secret in it: userinfo, query and fragment.
func publicURL(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	return collector.StripUserinfo(raw)
}

// oneOf lists the values that a variable may have.
func oneOf(words []string) string {
	return "one of " + strings.Join(words, ", ")
}

// sdkDisabled is OTEL_SDK_DISABLED: only "true" is true.
func sdkDisabled(env map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(env["OTEL_SDK_DISABLED"]), "true")
}

// distinct joins errors and leaves out repetitions: both signals read the
// variables that they share.
func distinct(all ...error) error {
	seen := map[string]bool{}
	var out []error
	for _, err := range all {
		for _, one := range parts(err) {
			if !seen[one.Error()] {
				seen[one.Error()] = true
				out = append(out, one)
			}
		}
	}
	return errors.Join(out...)
}

func parts(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, one := range joined.Unwrap() {
		out = append(out, parts(one)...)
	}
	return out
}
