package platform

import "syscall"

const openNoFollow = syscall.O_NOFOLLOW
