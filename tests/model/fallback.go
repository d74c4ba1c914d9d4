package model

const (
	fallbackOut = formerPlaces
	allPlaces   = fallbackOut + 1
)

func addFallback() {}
