package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// flagError says what was wanted of a flag whose value is no number, instead of what
// a parser said.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) {
		return err
	}
	name, value := "--"+invalid.GetFlag().Name, invalid.GetValue()
	kind := invalid.GetFlag().Value.Type()
	if kind == "duration" {
		return fmt.Errorf("cannot use %s %q: want a time such as 30s or 10m", name, value)
	}
	if !errors.As(err, &number) && kind != "bool" && kind != "int" && kind != "float64" {
		return err
	}
	want := map[string]string{"bool": "true or false", "float64": "a number", "int": "a whole number", "int64": "a whole number", "uint": "a whole number from 0", "uint64": "a whole number from 0"}[kind]
	if want == "" {
		return err
	}
	if number != nil && errors.Is(number.Err, strconv.ErrRange) {
		want += " that is not so large"
	}
	return fmt.Errorf("cannot use %s %q: want %s", name, value, want)
}
