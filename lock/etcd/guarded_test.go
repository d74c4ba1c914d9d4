package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// guarded is the cluster of three members that is reached by TLS, and lets in users only,
// with tokens that expire after three seconds. The tests share it.
func guarded(t testing.TB) *cluster {
	t.Helper()
	guard.Lock()
	defer guard.Unlock()
	if guard.cluster == nil {
		dir := must(os.MkdirTemp("", "holdfast-tls-"))(t)
		check(t, writeCertificate(dir))
		c := must(startCluster(3, memberConfig{Secure: dir}))(t)
		guard.cluster = c
		c.withUsers(t)
	}
	return guard.cluster
}

var guard struct {
	sync.Mutex
	cluster *cluster
}

func endGuarded() {
	if c := guard.cluster; c != nil {
		c.end()
		os.RemoveAll(c.secure())
	}
}

const certFile, keyFile = "cert.pem", "key.pem"

// writeCertificate makes one of 127.0.0.1 that is signed by itself.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // etcd's gateway is a client
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// secure is the folder of the certificate; empty if there is none.
func (c *cluster) secure() string { return c.members[0].config.Secure }

// tls is how a client reaches the cluster; nil without TLS.
func (c *cluster) tls(t testing.TB) *tls.Config {
	t.Helper()
	if c.secure() == "" {
		return nil
	}
	return must(trusting(filepath.Join(c.secure(), certFile)))(t)
}

// trusting trusts the one certificate.
func trusting(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool}, nil
}

// address is where a user opens the locks of a guarded cluster: see openAt.
func (c *cluster) address() string {
	return joined(c) + " " + filepath.Join(c.secure(), certFile)
}
