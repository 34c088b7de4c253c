package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckLimit bounds one question: a container's health check has a limit of its own, 30 s as a rule.
const healthcheckLimit = 5 * time.Second

// healthcheckCommand is for images without a shell: HEALTHCHECK CMD ["/spectap", "healthcheck"].
func (p program) healthcheckCommand() *cobra.Command {
	var admin string
	var ready bool
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "ask a running proxy whether it is well; exit code 0 or 1",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("admin") && p.env["SPECTAP_ADMIN"] != "" {
				admin = p.env["SPECTAP_ADMIN"]
			}
			path := "/livez"
			if ready {
				path = "/readyz"
			}
			return p.healthcheck(c.Context(), admin, path)
		},
	}
	c.Flags().StringVar(&admin, "admin", ":9464", "the proxy's admin port (SPECTAP_ADMIN)")
	c.Flags().BoolVar(&ready, "ready", false, "ask /readyz, which follows the engine, in place of /livez")
	return c
}

func (p program) healthcheck(ctx context.Context, admin, path string) error {
	network, address, err := adminTarget(admin)
	if err != nil {
		return exitError{exitUsage, err}
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckLimit)
	defer cancel()
	var dialer net.Dialer
	client := &http.Client{Transport: &http.Transport{ // no proxy: the port is on this machine
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return exitError{exitUsage, err}
	}
	resp, err := client.Do(req)
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("the proxy's admin port %q (SPECTAP_ADMIN) does not answer: %w", admin, errors.Unwrap(err))}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	answer := strings.TrimSpace(string(text))
	if resp.StatusCode != http.StatusOK {
		return exitError{exitFailed, fmt.Errorf("%s answers %d: %s", path, resp.StatusCode, answer)}
	}
	_, err = fmt.Fprintln(p.stdout, answer)
	return err
}

// adminTarget is where to connect for an address that a proxy listens on: one that means every address is asked on loopback.
func adminTarget(admin string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(admin, "unix:"); ok && path != "" {
		return "unix", path, nil
	}
	if admin == "off" {
		return "", "", errors.New("the admin port is off (SPECTAP_ADMIN, --admin): there is nothing to ask")
	}
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return "", "", fmt.Errorf("cannot use SPECTAP_ADMIN (--admin) %q: want host:port, :port or unix:/path", admin)
	}
	switch ip := net.ParseIP(host); { // by number: an empty image may know no localhost
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return "tcp", net.JoinHostPort(host, port), nil
}
