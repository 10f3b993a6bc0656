package node

import (
	"fmt"
	"os"

	"waggle/broker/seal"
)

// readEncryptionKeys fills in the keys that the settings name, the one to write with first: the first of the file, else
// the single one, which is readable in any case. What is wrong with a key is said without showing it.
func (c *Config) readEncryptionKeys(refuse func(flag string, value any, cause string)) {
	c.encryptionKeys = nil
	if path := c.EncryptionKeysFile; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			refuse("encryption-keys-file", path, err.Error())
			return
		}
		if c.encryptionKeys, err = seal.ParseKeys(string(text)); err != nil {
			refuse("encryption-keys-file", path, err.Error())
			return
		}
	}
	if c.EncryptionKey != "" {
		key, err := seal.ParseKey(c.EncryptionKey)
		if err != nil {
			refuse("encryption-key", "...", err.Error())
			return
		}
		c.encryptionKeys = append(c.encryptionKeys, key)
	}
	if err := seal.CheckKeys(c.encryptionKeys); err != nil {
		refuse("encryption-keys-file", c.EncryptionKeysFile, err.Error())
	}
}

// makeKeyring binds the keys to this installation. It is nil without keys.
func (n *Node) makeKeyring() error {
	keys, err := seal.NewKeyring(n.config.encryptionKeys, n.installation.ClusterID, n.installation.Former...)
	if err != nil {
		return fmt.Errorf("make keyring: %w", err)
	}
	n.keys = keys
	return nil
}
