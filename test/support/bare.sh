#!/usr/bin/env bash
# Runs `vitest` as for a newcomer: none of the programs of needed-programs.mjs is found, the user is not root, and files are
# for the user alone (umask 077), in a copy of this folder without .git, under a name with a space and an umlaut, to which a
# link leads. Needs root and overlayfs; nothing outside the copy changes.
#   test/support/bare.sh run test/cli
set -euo pipefail
cd "$(dirname "$0")/../.."
node scripts/setup.mjs
mkdir -p node_modules/.vite node_modules/.vite-temp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
copy="$work/sp ace ü"
mkdir -p "$copy/node_modules"
tar -c --exclude=./.git --exclude=./reports --exclude=./node_modules . | tar -x -C "$copy"
ln -s "$copy" "$work/link"
# Any user that is not root; Debian calls this one nobody.
user=65534
chmod -R go-rwx "$copy"
chown -R "$user:$user" "$work"

mapfile -t hidden < <(node test/support/needed-programs.mjs --found | grep '^/usr/' | sort -u)
path="$(dirname "$(command -v node)"):/usr/bin:/bin"
# shellcheck disable=SC2016 -- expanded by the inner shell
unshare --mount --propagation private bash -euc '
  work=$1 copy=$2 user=$3 path=$4; shift 4
  hidden=(); while [ "$1" != -- ]; do hidden+=("$1"); shift; done; shift
  # An overlay cannot keep its changes in another overlay, as which a container may have its root.
  mount -t tmpfs tmpfs /mnt
  mkdir /mnt/upper /mnt/work
  mount -t overlay overlay -o lowerdir=/usr,upperdir=/mnt/upper,workdir=/mnt/work /usr
  # No overlay: the compiler watches what is there by fanotify, which overlays do not have.
  mount --bind node_modules "$copy/node_modules"
  for cache in .vite .vite-temp; do mount -t tmpfs -o "uid=$user" tmpfs "$copy/node_modules/$cache"; done
  rm -f -- "${hidden[@]}"
  umask 077
  cd "$work/link"
  exec setpriv --reuid "$user" --regid "$user" --clear-groups \
    env -i PATH="$path" HOME="$work" TMPDIR="$work" LC_ALL=C.UTF-8 node node_modules/vitest/vitest.mjs "$@"
' bare "$work" "$copy" "$user" "$path" "${hidden[@]}" -- "$@"
