# One word for each thing; .ci/run knows how.

.PHONY: check full format mutants bench hosts kubernetes fuzz demo race chaos counts ci

check: ## format, vet, lint, tests
	@bash .ci/run format vet lint test

format: ## write all files as gofumpt wants them
	go tool gofumpt -w .

full mutants bench hosts kubernetes fuzz demo race chaos counts:
	@bash .ci/run $@

ci: ## everything a change must pass
	@CI=true bash .ci/run
