package activity

import (
	"net"
	"net/url"
	"strings"
)

// Authority returns the lower-cased host of u with its port, unless the port
// is the default of the scheme.
func Authority(u *url.URL) string {
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" || (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, port)
}
