// Package clone copies plain data, so that what a caller changes later does not reach the copy.
package clone
