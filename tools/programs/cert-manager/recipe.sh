# cert-manager's controller, and its kinds as the chart would install them.
module=github.com/cert-manager/cert-manager
packages=("$module/cmd/controller")
pruned=("$module")

amend() { # DIRECTORY: takes a whole API server for the text of one error
  local controller=$1/cert-manager/pkg/controller/controller.go
  sed -i -e '\|k8s.io/apiserver/pkg/registry/generic/registry|d' \
    -e 's/genericregistry.OptimisticLockErrorMsg/"the object has been modified"/' "$controller"
}

finish() { # the chart's templates in the CRDs name the release, and its webhook, which is not run
  local sources crds=$tools/cert-manager/crds crd
  sources=$(GOTOOLCHAIN=local "$go" list -mod=readonly -m -f '{{.Dir}}' "$module")/deploy/crds
  rm -rf "$crds" && mkdir -p "$crds"
  for crd in "$sources"/crd-*.yaml; do
    sed -e '/# Generated labels/d' -e '/template "webhook.caRef"/d' -e '/^  annotations:$/d' \
      -e "s/'{{[^}]*}}'/cert-manager/" "$crd" >"$crds/${crd##*/crd-}"
  done
}
