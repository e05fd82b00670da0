// Package bench measures what fedpost promises about time, and what it
// withstands for long, on the whole of it and over real connections. README.md
// says how to repeat each measurement.
package bench
