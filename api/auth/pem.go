package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// parsePublicKey reads PEM: a public key in either form, or a certificate. In a variable, line breaks are often written
// as \n.
func parsePublicKey(text string) (crypto.PublicKey, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "\n") {
		text = strings.ReplaceAll(text, `\n`, "\n")
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	key, err := parseBlock(block)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", block.Type, err)
	}
	if shortKey, ok := key.(*rsa.PublicKey); ok && shortKey.N.BitLen() < minRSABits {
		return nil, fmt.Errorf("RSA key of %d bits; at least %d are needed", shortKey.N.BitLen(), minRSABits)
	}
	return key, nil
}

// minRSABits is the shortest key that crypto/rsa verifies with.
const minRSABits = 1024

func parseBlock(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	}
	return nil, errors.New("not a public key")
}

// fits says whether a family of algorithms takes this kind of key.
func fits(family string, key any) bool {
	switch key.(type) {
	case *rsa.PublicKey:
		return family == familyRS || family == familyPS
	case *ecdsa.PublicKey:
		return family == familyES
	case ed25519.PublicKey:
		return family == familyEd
	}
	return false
}
