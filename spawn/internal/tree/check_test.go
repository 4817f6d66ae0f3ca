package tree

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// CheckJSON returns an error for the facts that AppendJSON cannot write, and for no others.
func TestCheckJSON(t *testing.T) {
	r := filler{rand.New(rand.NewPCG(7, 8))}
	for i := range raced(100, 8) {
		for k := Opened; k < kinds; k++ {
			f := r.fact(k)
			if k == Snapshot && i%2 == 1 {
				of := &f.Image().Runs[len(f.Image().Runs)-1]
				of.Answer, of.Usage = f.Answer, f.Answer.Usage
				f.Answer = &Result{}
				of.Usage.Cost = []float64{math.NaN(), 0}[i/2%2]
				of.Answer.Usage.Cost = math.Inf(1)
				_, err := f.AppendJSON(nil)
				require.Error(t, err)
				require.Error(t, f.CheckJSON())
				continue
			}
			switch i % 4 {
			case 1:
				f.Answer.Usage.Cost = math.NaN()
			case 2:
				f.Answer.Usage.Cost = math.Inf(-1)
			case 3:
				f.Spec.Grant.Role = session.Role(200)
			}
			_, err := f.AppendJSON(nil)
			require.Equal(t, err == nil, f.CheckJSON() == nil, "%v: %v", k, err)
			require.Equal(t, i%4 == 0, err == nil)
		}
	}
}
