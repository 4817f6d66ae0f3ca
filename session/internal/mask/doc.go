// Package mask keeps credentials out of the texts of the engines.
//
//	address of a server --> Address --> the address for an error or a log, with *** for the rest
//	                    --> Check ----> ErrAddress for one that cannot be taken apart
//	error of a driver ----> Error ----> an error that has no word of a secret text
//
// [Address] is the one function that masks an address. Begin there.
package mask
