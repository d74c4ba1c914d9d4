// Package windows tests the command on Windows, or on what stands for it: see wine.sh.
package windows
