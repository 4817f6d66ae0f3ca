package text

// Nearest returns the name that a word was probably meant to be: the one with the fewest letters
// to add, remove, replace or exchange with their neighbour, at most a third of the word's. It
// returns "" if no name is near.
func Nearest(word string, names []string) string {
	best, least := "", len([]rune(word))/3+1
	if len(word) > maxNearest {
		return ""
	}
	for _, name := range names {
		if len(name) > maxNearest {
			continue
		}
		if d := distance([]rune(word), []rune(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// maxNearest is how many bytes the words have that Nearest compares: the time it takes grows with
// their product.
const maxNearest = 256

// distance returns how many letters must be added, removed, replaced or exchanged with their
// neighbour to make b of a.
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
