// Package ahead reads a text that comes in pieces as if it were whole. A reader that decides about
// a place looks ahead through a View, which notes whether the decision may depend on what has not
// come yet. A Cursor keeps that place until the next piece.
package ahead
