//go:build deps

package main

import (
	_ "github.com/caarlos0/env/v11"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/parquet-go/parquet-go"
	_ "github.com/rs/zerolog"
	_ "github.com/spf13/cobra"
	_ "github.com/valyala/fasthttp"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)
