package cli

import (
	"errors"
	"fmt"
	"strings"

	"waggle/client"
)

// Connection are the flags of every command that talks to a cluster.
type Connection struct {
	URL    []string `name:"url" sep:"," default:"http://127.0.0.1:6632" help:"Broker URLs, separated by commas or given several times; a call fails over from one to the next."`
	Token  string   `secret:"" help:"Bearer token."`
	Tenant string   `help:"Tenant, for brokers that run with tenancy by header."`
}

// connect makes the client; bad flags are usage errors.
func (c *Connection) connect() (*client.Client, error) {
	cl, err := client.New(client.Config{URLs: c.URL, Token: c.Token, Tenant: c.Tenant})
	if err != nil {
		return nil, Fail(ExitUsage, fmt.Errorf("--url: %w", err))
	}
	return cl, nil
}

func usageError(format string, args ...any) error {
	return Fail(ExitUsage, fmt.Errorf(format, args...))
}

// checkName refuses what every broker refuses for the whole request, before a file is read for it.
func checkName(what, name string) error {
	if name == "" {
		return usageError("%s must not be empty", what)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 }) {
		return usageError("%s %q contains a control character", what, name)
	}
	return nil
}

// isStatus tells whether err is a broker's refusal with one of the given codes.
func isStatus(err error, statuses ...int) bool {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, status := range statuses {
		if refused.Status == status {
			return true
		}
	}
	return false
}
