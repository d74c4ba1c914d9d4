package platform

// openNoFollow: package syscall does not pass O_NOFOLLOW on to Node.js.
const openNoFollow = 0
