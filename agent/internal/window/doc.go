// Package window decides what of a conversation a model is shown: how many tokens messages take,
// which of them stay when the others are replaced by a summary, and how what is still too large is
// cut. It decides only, and changes no message that it is given.
package window
