// Package text has functions on texts that people and models wrote.
package text
