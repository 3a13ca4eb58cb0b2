package main

import "servesim/workload"

// Tokens describes the token lengths of one side file.
type Tokens struct {
	IDs    int              `json:"ids"`
	Tokens workload.Summary `json:"tokens"`
}

// describeSide describes a file of token lengths.
func describeSide(o options, out *Output) error {
	lengths, err := workload.ReadRAGLengths(o.file)
	if err != nil {
		return err
	}
	values := make([]float64, 0, len(lengths))
	for _, n := range lengths {
		values = append(values, float64(n))
	}
	out.Conventions = percentiles
	out.Tokens = &Tokens{IDs: len(values), Tokens: workload.Summarise(values)}
	return nil
}
