module github.com/zeroinfra/hack/gate

go 1.26.0
