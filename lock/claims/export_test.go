package claims

import "encoding/json"

// State returns the whole state of a new Manager, from a snapshot if there is one.
func (m *Manager) State() (string, error) {
	s := fromSnapshot(m.ledger())
	if err := s.catchUp(m.ledger()); err != nil {
		return "", err
	}
	data, err := json.Marshal([]any{s.sequence, s.digest, s.before, s.save()})
	return string(data), err
}
