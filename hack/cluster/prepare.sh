# SPDX-License-Identifier: Apache-2.0
#
# Sourced by demo.sh and e2e.sh: a cluster to use, and images in it.
#
# With KUBECONFIG set, that cluster is used and none is built; its nodes must then be
# able to pull the images: name a registry in REGISTRY to push them there.

export PATH="$root/bin:$PATH"
version=$(cat "$root/VERSION")
own_cluster=yes
[ -z "${KUBECONFIG:-}" ] || own_cluster=no

say() { printf '\n\033[1m==> %s\033[0m\n' "$*"; }

# cluster_up NAME PORT [FLAG...]: brings the dev cluster NAME up, unless KUBECONFIG names one, and points kubectl at it.
cluster_up() {
  local name=$1 port=$2
  shift 2
  if [ "$own_cluster" = no ]; then
    say "Using the cluster of KUBECONFIG=$KUBECONFIG"
    return
  fi
  say "Bringing the dev cluster up"
  devcluster up --name "$name" --api-port "$port" "$@"
  KUBECONFIG=$(devcluster kubeconfig --name "$name")
  export KUBECONFIG
  kubernetes_bin=$(devcluster bin)
  export PATH="$kubernetes_bin:$PATH"
}

# cluster_end NAME STATUS: takes the dev cluster NAME down, unless KEEP or KUBECONFIG is set, and ends with that status.
cluster_end() {
  if [ "$own_cluster" = yes ] && [ -z "${KEEP:-}" ]; then
    say "Taking the dev cluster down"
    devcluster down --name "$1"
  fi
  exit "$2"
}

# images_up NAME IMAGE...: builds what changed and brings it to the nodes of dev cluster NAME, or to REGISTRY. An IMAGE is a
# name, with all its versions, or name:tag.
images_up() {
  local name=$1
  shift
  images_build "$@"
  images_load "$name" "$@"
}

# images_build IMAGE...: builds the archives of images whose inputs have changed.
images_build() {
  say "Building images (only what changed)"
  (cd "$root/hack/images" && GOWORK=off go build -o "$root/bin/images" .)
  images build "$@" --out "$root/dist/images" --version "$version"
}

# images_load NAME IMAGE...: brings built images to the nodes of dev cluster NAME, or to REGISTRY.
images_load() {
  local name=$1
  shift
  if [ "$own_cluster" = yes ]; then
    say "Loading images into the nodes"
    local archives=() image
    for image in "$@"; do
      case $image in
      *:*) archives+=("$root/dist/images/${image/:/-}.tar") ;;
      *) archives+=("$root/dist/images/$image"-[0-9]*.tar) ;;
      esac
    done
    devcluster load --name "$name" "${archives[@]}"
  elif [ -n "${REGISTRY:-}" ]; then
    say "Pushing images to $REGISTRY"
    images push "$@" --out "$root/dist/images" --version "$version" --registry "$REGISTRY"
  else
    echo "REGISTRY is not set: the nodes are expected to have the images already"
  fi
}

# go_test NAME ARG...: runs go test. With a folder in TEST_EVENTS it keeps the events of the tests there, for the gate.
go_test() {
  local name=$1
  shift
  if [ -n "${TEST_EVENTS:-}" ]; then
    GOWORK=off gotestsum --format standard-verbose --jsonfile "$TEST_EVENTS/$name.json" -- "$@"
  else
    GOWORK=off go test "$@"
  fi
}
