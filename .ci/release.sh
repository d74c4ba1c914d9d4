#!/bin/sh
# Makes a release of what is committed: a commit in which all modules name VERSION, and
# its tags, VERSION for the root and FOLDER/VERSION for each nested module that others use.
# It pushes nothing, and says what to do by hand.
#
#   sh .ci/release.sh VERSION        for example v1.2.3
#
# Run it when .ci/run is green, which rehearses a release, and does with it what others do
# (tests/release_test.go). All is made in a copy: what has failed has changed nothing here,
# or has left tags out; run it again. A version that was pushed is never made again, as
# module proxies keep what they saw first.
#
# Exit codes: 0 the release is made, or was already; 2 wrong use; all else: it can't be.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "release.sh: $*" >&2
	exit 1
}

usage() {
	echo "release.sh: usage: sh .ci/release.sh vX.Y.Z (from v2 on, module paths need /v2)" >&2
	exit 2
}
[ $# = 1 ] || usage
version=$1
case $version in *[!v.0-9]*) usage ;; esac # a second line, too
printf '%s\n' "$version" | grep -Eqx 'v[01](\.(0|[1-9][0-9]*)){2}' || usage
changes=$(git status --porcelain) || fail "no git repository"
[ -z "$changes" ] || fail "commit or remove these changes first:
$changes"

self=$(sed -n 's/^module //p' go.mod)
users= # nested modules that others use, and so are tagged; commands, which require others, come last
commands=
ours=  # those for us alone, which may require any of the others
tags=$version
for file in $(git ls-files -- '*/go.mod'); do
	module=${file%/go.mod}
	case $module in
	tests | benchmarks) ours="$ours $module" ;;
	cmd/*)
		commands="$commands $module"
		tags="$tags $module/$version"
		;;
	*)
		users="$users $module"
		tags="$tags $module/$version"
		;;
	esac
done
users="$users$commands"
for file in $(git ls-files -- go.mod '*/go.mod'); do
	if grep -n '=>' "$file"; then
		fail "$file has a replace, which others don't see; go.work is the place for it"
	fi
done

tmp=$(mktemp -d) || fail "no temporary folder"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
copy=$tmp/copy
git clone -q --no-tags . "$copy"

# alone runs the Go tool in a module of the copy, without go.work. It fetches our modules
# from the copy, by its tags, as others do from the server, into a cache that goes with it.
# All else it has in the user's, or fetches.
alone() { # FOLDER COMMAND...
	(
		cd "$copy/$1"
		shift
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$copy.insteadOf" GIT_CONFIG_VALUE_0="https://$self"
		export GOPROXY="file://$cache,$proxy" GONOPROXY="$self" GONOSUMDB="$self"
		export GOMODCACHE="$tmp/modules" GOFLAGS=-modcacherw GOWORK=off
		"$@"
	)
}
cache=$(go env GOMODCACHE)/cache/download
proxy=$(go env GOPROXY)

# keep TAG commits what is in the copy, under a tag.
keep() {
	git -C "$copy" -c user.name=release.sh -c user.email= -c commit.gpgSign=false \
		commit -q --all --allow-empty --no-verify -m "$1"
	git -C "$copy" update-ref "refs/tags/$1" HEAD
}

edit() { # FILE COMMAND... puts what the command makes of the file in its place.
	file=$copy/$1
	shift
	"$@" <"$file" >"$tmp/edited"
	cat "$tmp/edited" >"$file"
}

# sums FOLDER [MODULE...] writes those of the root, and of the nested modules if they
# are required, to the folder's go.sum.
sums() {
	folder=$1
	shift
	wanted=$self@$version
	for other; do
		if grep -q "$self/$other v" "$copy/$folder/go.mod"; then
			wanted="$wanted $self/$other@$version"
		fi
	done
	# shellcheck disable=SC2086 # a list of modules
	alone "$folder" go mod download $wanted
}

for file in $(git ls-files -- go.work '*/go.work' '*/go.mod'); do
	edit "$file" sed "s#\($self\(/[^ ]*\)\{0,1\}\) v[^ ]*#\1 $version#"
done
for file in $(git ls-files -- '*/go.sum'); do
	edit "$file" sed "\\#^$self[/ ]#d"
done
if ! grep -q "^## $version " CHANGELOG.md; then
	grep -qx '## Unreleased' CHANGELOG.md || fail "CHANGELOG.md has no section Unreleased"
	edit CHANGELOG.md sed "s/^## Unreleased\$/&\\
\\
## $version ($(date -u +%Y-%m-%d))/"
fi

# A module's sum is of its own files without those of nested modules. So the root's is
# known before there is any that names it.
keep "$version"
for module in $users; do
	# shellcheck disable=SC2086 # a list of folders
	sums "$module" $users
	keep "$module/$version"
done
for module in $ours; do
	# shellcheck disable=SC2086 # a list of folders
	sums "$module" $users
done
keep released

git fetch -q --no-tags "$copy" refs/tags/released
commit=$(git rev-parse HEAD)
tree=$(git rev-parse 'FETCH_HEAD^{tree}')
if [ "$tree" != "$(git rev-parse 'HEAD^{tree}')" ]; then
	commit=$(git commit-tree -p HEAD -m "release: $version" "$tree")
fi
for tag in $tags; do
	tagged=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") || continue
	[ "$tagged" = "$commit" ] ||
		fail "$tag is the tag of another commit, $tagged: choose another version (or git tag -d $tag, if nobody has seen it)"
done

git merge -q --ff-only "$commit"
echo "release.sh: $version is commit $(git log -1 --format='%h, %s')"
for tag in $tags; do
	git rev-parse -q --verify "refs/tags/$tag" >/dev/null || git tag -a -m "$self $tag" "$tag" "$commit"
	echo "release.sh: tag $tag"
done
cat <<END

Left to do by hand. Push the commit and its tags, all or none:

  git push --atomic origin HEAD $tags

Let the proxy know; from then on nobody can change this version:

END
for module in '' $users; do
	echo "  go list -m $self${module:+/$module}@$version"
done
