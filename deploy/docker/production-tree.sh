#!/bin/sh
# Makes the folder that an image holds: one built app, the packages of this repository that it needs,
# and what those need from npm for the target's processor.
#
# usage: production-tree.sh APP OUT [amd64|arm64], from the repository's folder, after the build
set -eu

app=$1
out=$2
arch=${3:-amd64}
[ "$arch" = amd64 ] && cpu=x64 || cpu=$arch
for folder in apps tools; do
  [ -f "$folder/$app/package.json" ] && app_folder=$folder/$app
done
: "${app_folder:?no app $app}"

# npm wants the manifests of all workspaces.
mkdir -p "$out"
find . \( -name node_modules -o -name dist -o -name testdata -o -name .git \) -prune \
  -o \( -name package.json -o -path ./package-lock.json -o -path ./.npmrc \) -print |
  tar -cf - -T - | tar -xf - -C "$out"
(
  cd "$out"
  npm ci --workspace="@llm-d/$app" --omit=dev --ignore-scripts --no-audit --no-fund \
    --os=linux --cpu="$cpu" --libc=glibc >&2
)

# What is linked is needed; everything else of the repository goes again.
kept=' '
for link in "$out"/node_modules/@llm-d/*; do
  folder=$(cd "$link" && pwd -P)
  folder=${folder#"$(cd "$out" && pwd -P)"/}
  kept="$kept$folder "
  for part in dist profiles scripts; do
    [ -d "$folder/$part" ] && cp -R "$folder/$part" "$out/$folder/"
  done
done
for folder in "$out"/apps/* "$out"/libs/* "$out"/tools/* "$out"/examples/*; do
  [ -d "$folder" ] || continue
  case "$kept" in *" ${folder#"$out"/} "*) ;; *) rm -rf "$folder" ;; esac
done
find "$out" \( -name '*.map' -o -name '*.d.ts' -o -name '*.test.js' -o -name .tsbuildinfo \) -type f -delete
rm -f "$out/package-lock.json" "$out/.npmrc"
cp deploy/docker/healthcheck.mjs "$out/"
ln -s "$app_folder" "$out/current"
