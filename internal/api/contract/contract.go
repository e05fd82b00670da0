// Package contract is what travels between fedpost's HTTP API and its callers:
// requests, answers and refusals, one Go type for each schema of
// docs/openapi.yaml.
//
// Server and client share these types, so that neither can know a field that the
// other does not; a test compares the types with the schemas. The package holds
// data only: what a request means is decided in package api.
package contract
