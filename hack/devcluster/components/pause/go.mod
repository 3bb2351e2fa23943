module github.com/zeroinfra/hack/devcluster/components/pause

go 1.26
