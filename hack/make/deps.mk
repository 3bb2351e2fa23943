# SPDX-License-Identifier: Apache-2.0
#
# What the other targets stand on: Debian packages, the pinned tools, the dev cluster's binary.

# What the gate needs of hack/tools, and what its images are built from.
GATE_TOOLS := controller-gen gotestsum helm protoc-gen-go protoc-gen-go-grpc
IMAGE_TOOLS := minio restic
# Parts of the dev cluster that the gate does without.
EXTRA_COMPONENTS := cert-manager kubernetes-newest kubernetes-oldest local-path local-path-provisioner metrics metrics-server snapshots
COMPONENTS = $(patsubst %/go.mod,%,$(wildcard hack/devcluster/components/*/go.mod))
# The modules whose dependencies are loaded, the largest first.
DOWNLOADS = $(filter-out $(addprefix %/,$(EXTRA_COMPONENTS)),$(COMPONENTS)) $(MODULES) $(addprefix hack/tools/,$(IMAGE_TOOLS) $(GATE_TOOLS))

# Modules are loaded while packages are installed and tools are built.
.PHONY: deps
deps: ## Install what is missing (says what)
	@hack/make/download.sh $(DOWNLOADS) & loading=$$!; failed=0; \
	$(MAKE) deps-packages $(DEVCLUSTER) $(addprefix tool-,$(GATE_TOOLS)) || failed=1; wait $$loading; exit $$failed

.PHONY: deps-packages
deps-packages:
	@hack/make/packages.sh

# Debian packages that images are made with: the keys of the archive, and the client for Maven artifacts.
IMAGE_PACKAGES := debian-archive-keyring maven

.PHONY: deps-images
deps-images:
	@hack/make/packages.sh $(IMAGE_PACKAGES)

# The server that integration tests of Entities talk to.
INTEGRATION_PACKAGES := redis-server

.PHONY: deps-integration
deps-integration:
	@hack/make/packages.sh $(INTEGRATION_PACKAGES)

# Debian packages of the servers that test-processes starts, and of the images that it builds. Their services stay off.
SERVER_PACKAGES := $(IMAGE_PACKAGES) $(INTEGRATION_PACKAGES) default-jre-headless libaio1 libnuma1 nginx-light pgbouncer postgresql xfsprogs

.PHONY: deps-servers
deps-servers:
	@hack/make/packages.sh $(SERVER_PACKAGES)

# Kafka is in no Debian package: its jars are copied from the Maven repository, as the list in the module of the agents says.
KAFKA_POM := agents/internal/testkafka/pom.xml

.PHONY: server-kafka
server-kafka: deps-servers $(BIN)/kafka/.copied $(BIN)/kafka-3.9/.copied

$(BIN)/kafka/.copied: $(KAFKA_POM)
	@echo "copying the jars of Kafka"
	@rm -rf $(BIN)/kafka
	@mvn -q -B -f $(KAFKA_POM) dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(BIN)/kafka
	@touch $@

# The last line with ZooKeeper is that of the image.
KAFKA_IMAGE := hack/images/kafka

$(BIN)/kafka-3.9/.copied: $(KAFKA_IMAGE)/pom.xml $(KAFKA_IMAGE)/image.yaml
	@echo "copying the jars of Kafka 3.9"
	@rm -rf $(BIN)/kafka-3.9
	@mvn -q -B -f $(KAFKA_IMAGE)/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(BIN)/kafka-3.9 \
	  -Dkafka=$$(sed -n 's/.*{kafka: \(3[0-9.]*\)}.*/\1/p' $(KAFKA_IMAGE)/image.yaml)
	@touch $@

# Neither is MySQL in the Debian release of the machine: its files come from the zip that the image is made of.
MYSQL_IMAGE := hack/images/mysql
MYSQL_FILES := bin/mysql,bin/mysqld,bin/mysqldump,bin/mysqlbinlog,bin/mysqlcheck,lib/private/**,lib/plugin/*.so,share/**

.PHONY: server-mysql
server-mysql: deps-servers $(BIN)/mysql/.copied

$(BIN)/mysql/.copied: $(MYSQL_IMAGE)/pom.xml $(MYSQL_IMAGE)/image.yaml hack/make/deps.mk
	@echo "unpacking MySQL"
	@rm -rf $(BIN)/mysql
	@mvn -q -B -f $(MYSQL_IMAGE)/pom.xml dependency:unpack-dependencies -DincludeTypes=zip -DoutputDirectory=$(BIN)/mysql \
	  -DmarkersDirectory=$(BIN)/mysql/.markers \
	  -Dmysql=$$(sed -n 's/.*{mysql: \([0-9.]*\)}.*/\1/p' $(MYSQL_IMAGE)/image.yaml) -Dmdep.unpack.includes='$(MYSQL_FILES)'
	@chmod +x $(BIN)/mysql/bin/*
	@touch $@

# MySQL Router is that of its image.
.PHONY: server-mysqlrouter
server-mysqlrouter: deps-servers $(BIN)/mysqlrouter/.copied

$(BIN)/mysqlrouter/.copied: hack/images/mysql-router/image.yaml hack/make/mysqlrouter.sh
	@echo "unpacking MySQL Router"
	@hack/make/mysqlrouter.sh $(BIN)/mysqlrouter
	@touch $@

.PHONY: tools
tools: ## Build all pinned tools into bin/
	@$(MAKE) -C hack/tools tools

tool-%:
	@$(MAKE) -C hack/tools $*

DEVCLUSTER_SOURCES := $(shell find hack/devcluster -type f -not -path '*/testdata/*' 2>/dev/null)

$(DEVCLUSTER): $(DEVCLUSTER_SOURCES)
	@echo "building devcluster"
	@mkdir -p $(BIN)
	@cd hack/devcluster && GOWORK=off CGO_ENABLED=0 go build -trimpath -o $@ .
