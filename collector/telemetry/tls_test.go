package telemetry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate makes a self-signed certificate of 127.0.0.1 and its files.
func certificate(t *testing.T) (cert tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, text := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return cert, certFile, keyFile
}

// Both protocols over TLS, also where the collector wants to know the client.
func TestTLS(t *testing.T) {
	cert, certFile, keyFile := certificate(t)
	known := x509.NewCertPool()
	known.AddCert(leaf(t, cert))
	mutual := &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert}

	f := func(r *receiver, want spanCounts, env ...string) {
		t.Helper()
		setenv(t, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_BSP_EXPORT_TIMEOUT=2000", "OTEL_EXPORTER_OTLP_TIMEOUT=2000")...)
		tr := started(t)
		burst(tr, 1)
		if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := tr.counts(); n != want || uint64(len(r.all())) != want.Exported {
			t.Errorf("%q: got %+v (%s), %d spans; want %+v", env, n, tr.failures.lastKind(), len(r.all()), want)
		}
	}
	sent, lost := spanCounts{Exported: 2}, spanCounts{Failed: 2}
	trusted := "OTEL_EXPORTER_OTLP_CERTIFICATE=" + certFile
	client := []string{trusted, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE=" + certFile, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=" + keyFile}

	f(grpcReceiver(t, &tls.Config{Certificates: []tls.Certificate{cert}}), sent, trusted, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(grpcReceiver(t, mutual), sent, append(client, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")...)
	f(grpcReceiver(t, mutual), lost, trusted, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(tlsReceiver(t, mutual), sent, client...)
	f(tlsReceiver(t, mutual), lost) // nobody trusts it
}

func leaf(t *testing.T, cert tls.Certificate) *x509.Certificate {
	t.Helper()
	parsed, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// tlsReceiver starts a receiver of OTLP over HTTPS.
func tlsReceiver(t *testing.T, config *tls.Config) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewUnstartedServer(r)
	server.TLS = config.Clone()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.endpoint = server.URL
	return r
}
