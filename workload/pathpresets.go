package workload

import "time"

// The presets are half a published round trip each way, as constants: their
// sources give no distribution. Everything but the network is for the user to
// say.

// SameRegion is a client in another availability zone of the engine's region:
// 1 ms each way, the bound of a round trip of 2 ms between zones (Microsoft,
// "What are availability zones?").
func SameRegion() ClientPath { return roundTrip(2 * time.Millisecond) }

// CrossRegion is a client at the other end of a continent: 36 ms each way. The
// longest round trip between two North American regions was 72 ms (Microsoft,
// "Azure network round-trip latency statistics", October 2019).
func CrossRegion() ClientPath { return roundTrip(72 * time.Millisecond) }

// Mobile is a client on a slow mobile network, near the engine: 75 ms each way,
// of the round trip of 150 ms to which Lighthouse throttles, the slowest quarter
// of 4G connections (Google, "Network Throttling").
func Mobile() ClientPath { return roundTrip(150 * time.Millisecond) }

func roundTrip(d time.Duration) ClientPath {
	return ClientPath{NetworkIn: After(d / 2), NetworkOut: After(d / 2)}
}
