//go:build race

package model

// The model takes five times as long under the race detector, and has nothing that runs beside
// each other.
const underRace = true
