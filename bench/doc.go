// Package bench measures fedpost's promises about time, and long runs, over real connections. README.md
// says how to repeat each measurement.
package bench
