// Package jsonscan finds the JSON values that stand in a text.
package jsonscan
