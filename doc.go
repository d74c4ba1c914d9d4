// Holdfast is locks between processes: package lock has them in files, lock/pg on PostgreSQL, and
// lock/etcd on etcd. Begin at github.com/holdfast-go/holdfast/lock.
package holdfast
