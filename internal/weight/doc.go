// Package weight measures the texts in plain data, so that a configuration can be bounded as a
// whole: a field that is added later is measured, too.
package weight
