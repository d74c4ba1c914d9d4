// Package evidence says what a lock file says, and judges from facts whether its holder is
// alive. It opens no file, asks no kernel and knows no clock: its caller hands the facts in.
package evidence
