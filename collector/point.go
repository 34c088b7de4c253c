package collector

import "errors"

// Point is one temperature at one concurrency: what was asked and every Record of it.
type Point struct {
	Run     Run
	Records []*Record
	// Lenient leaves conversations out that cannot be measured, counted by
	// reason, instead of refusing to make the files. Summary.Incomplete tells.
	Lenient bool

	described bool // the Run was read from a run line
}

// Files returns the text of every file of the Point by its name.
func (p Point) Files() (map[string][]byte, Summary, error) {
	return nil, Summary{}, errors.New("cannot make files of a point")
}

// Write writes the files of the Point into dir, which exists.
func (p Point) Write(dir string) (Summary, error) {
	_, s, err := p.Files()
	return s, err
}
