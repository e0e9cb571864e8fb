//go:build programs

// Package programs names what tools/programs/build builds, so that go.mod and go.sum pin all that
// it takes.
package programs

import _ "github.com/hashicorp/consul"
