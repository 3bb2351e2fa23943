module github.com/zeroinfra/hack/checks

go 1.26.0
