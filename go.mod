module servesim

go 1.23.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/google/go-cmp v0.7.0
	golang.org/x/exp v0.0.0-20250620022241-b7579e27df2b
	gonum.org/v1/gonum v0.16.0
)
