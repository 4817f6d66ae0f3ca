// Package enum reads and writes the words of small enumerations of every package.
package enum
