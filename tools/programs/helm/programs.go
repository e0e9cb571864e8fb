//go:build programs

// Package programs names what tools/programs/build builds, so that go.mod and go.sum pin all that
// it takes.
package programs

import _ "helm.sh/helm/v3/cmd/helm"
