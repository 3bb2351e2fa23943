module github.com/zeroinfra/test/chart/testdata/prometheus-operator

go 1.26.0

// The definitions of the kinds that monitors are of are files of this module.
require github.com/prometheus-operator/prometheus-operator v0.85.0
