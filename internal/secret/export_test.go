package secret

// What weighs a value, for tests that ask it directly.
var (
	IsNumber = isNumber
	HasDense = hasDense
	IsMixed  = isMixed
	IsWordy  = isWordy
)

// MaskWithoutSieves is Own.Mask, but follows each value from each place alone.
func (o *Own) MaskWithoutSieves(s string) string {
	p := o.Pass()
	p.sieves.off = true
	return Mask(p.lines(p.values(s, true), true))
}
