package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	t := time.Now()
	fs, err := fitKernels("/work/shared/measured", os.Args[1], len(os.Args) > 2)
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range fs {
		fmt.Printf("%-14s %-18s held %v target %.0f met %v\n   fit %v cross %v\n   roof %v\n   table %v\n", f.GPU, f.Operator, f.Held, 100*f.Target, f.Met, f.Fitted, f.Cross, f.Roofline, f.Table)
		for _, v := range f.Values {
			fmt.Printf("   %s=%.3g±%.1g", v.Name, v.Value, v.Error)
			if v.AtBound {
				fmt.Print("!")
			}
			if v.Without != nil {
				fmt.Printf("(%.1f)", 100**v.Without)
			}
		}
		fmt.Println()
	}
	fmt.Println(time.Since(t))
}
