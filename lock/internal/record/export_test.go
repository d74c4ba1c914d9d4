package record

// Decode is Memory.decode.
func Decode(data []byte) Memory {
	var m Memory
	m.decode(data)
	return m
}
