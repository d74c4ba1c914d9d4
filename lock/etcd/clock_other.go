//go:build !linux

package etcd

import "time"

func sinceBoot() time.Duration { return 0 }
