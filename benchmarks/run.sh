#!/bin/sh
# Measures holdfast beside every other way to lock files that it knows, in about ten
# minutes, and writes results/DATE.md with its plots, and the README's section; the figures
# are in results/DATE.json, which stays out of the repository. It should have the machine
# for itself. What is missing (node, npm, python3, strace,
# PostgreSQL, a module) gets a row that says so.
#
#   sh benchmarks/run.sh              the whole run
#   sh benchmarks/run.sh -quick       a minute and a half: does it work?
#   sh benchmarks/run.sh -only handoff,safety
#   sh benchmarks/run.sh -from results/DATE.json    the report and README anew
#
# Ends with 0 when the report is written, whatever it says.
set -eu
cd "$(dirname "$0")"
exec go run ./cmd/bench -readme ../README.md "$@"
