package trl

import "embed"

// Documents are the documents, by their paths in the repository.
//
//go:embed README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md PRINCIPLES.md
//go:embed docs/*.md docs/*/*.md docs/demo.svg docs/*.webp
//go:embed client/README.md sdk/python/README.md sdk/typescript/README.md
var Documents embed.FS
