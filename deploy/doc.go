// Package deploy holds what stands around a running spectap: the Grafana dashboard
// with its provisioning, the task of a Slurm job, Kubernetes manifests, and the tests
// that hold spectap against the programs it is deployed with: Prometheus, Jaeger, a
// browser, DuckDB, and for transparency the HTTP stack of vLLM with the Python
// clients that people use. A module of its own, so that their libraries stay out of
// spectap's.
package deploy
