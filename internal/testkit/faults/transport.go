package faults

import (
	"errors"
	"net/http"
)

// Transport wraps an HTTP transport under a name: its one op is RoundTrip.
func Transport(p *Plan, name string, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		var res *http.Response
		err := p.Do(name, "RoundTrip", func() (err error) {
			res, err = next.RoundTrip(req)
			return err
		})
		if err == nil {
			return res, nil
		}
		if res != nil {
			// The answer came, but the plan keeps it from the caller.
			err = errors.Join(err, res.Body.Close())
		}
		return nil, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
