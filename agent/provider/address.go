package provider

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// CheckBaseURL returns what is wrong with the address of a server, to which a client adds the paths
// of its calls: it is absolute, of http or https, and has nothing beside a host, a port and a path.
// The error has nothing of the address that may be a secret.
func CheckBaseURL(address string) error {
	at, err := url.Parse(address)
	if err != nil {
		return errors.New("provider: this is not an address")
	}
	port, err := strconv.Atoi(at.Port())
	switch {
	case at.User != nil:
		return errors.New("provider: the address has a user: a key or a password is for Config.Key or Config.HTTP")
	case strings.Contains(address, "?"):
		return errors.New("provider: the address has a query, which the paths of calls would follow")
	case strings.Contains(address, "#"):
		return errors.New("provider: the address has a fragment, which the paths of calls would follow")
	case at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "":
		return fmt.Errorf("provider: %q is not an absolute http or https address", address)
	case at.Port() != "" && (err != nil || port < 1 || port > 65535):
		return fmt.Errorf("provider: the port %q of the address is not one of 1 to 65535", at.Port())
	}
	return nil
}

// CheckKey returns a key without the white space around it, such as the end of the line of a file,
// or what is wrong with it: a header cannot have it. The error does not have the key.
func CheckKey(key string) (string, error) {
	key = strings.TrimSpace(key)
	if i := strings.IndexFunc(key, unicode.IsControl); i >= 0 {
		return "", fmt.Errorf(
			"provider: the key has a line break or another control character behind byte %d", i)
	}
	return key, nil
}
