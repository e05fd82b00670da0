// Package contract is what travels between fedpost's HTTP API and its callers:
// requests, answers and refusals, one Go type for each schema of
// docs/openapi.yaml.
//
// Server and client share these types, so that both know the same fields; a test compares
// the types with the schemas. The package holds data only: package api decides what a
// request means.
package contract
