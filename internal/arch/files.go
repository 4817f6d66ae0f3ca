package arch

// files checks how many files the packages have. Tests do not count.
func (c *checker) files() {
	if c.house.MaxFiles == 0 {
		return
	}
	for _, p := range c.pkgs {
		n := 0
		for _, s := range p.sources {
			if !s.test {
				n++
			}
		}
		if n > c.house.MaxFiles {
			c.in(p.dir, "files", "%d files without tests, %d are allowed", n, c.house.MaxFiles)
		}
	}
}
