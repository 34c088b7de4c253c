# spectap as a static binary on an empty image: CA certificates, no shell, not root.
#
#   docker build \
#     --build-arg VERSION=v0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg CREATED=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t spectap .
#
# For two platforms, with an SBOM, and the same bytes at every build: docker buildx
# build --platform linux/amd64,linux/arm64 --sbom=true
# --output type=image,name=NAME,rewrite-timestamp=true,push=true
#
# .dockerignore leaves out .git: the binary learns its version from the arguments.
# deploy/image_linux_test.go runs the commands below, without the base image and without
# a Docker engine; deploy/release builds the same image without either.
FROM --platform=$BUILDPLATFORM golang:1.27.3 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache GOMODCACHE=/cache/mod go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION
ARG REVISION
ARG CREATED
RUN --mount=type=cache,target=/cache \
    GOCACHE=/cache/go-build GOMODCACHE=/cache/mod CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
      -ldflags="-s -w -buildid= -X main.stamp=$VERSION,$REVISION,$CREATED" -o /out/spectap ./cmd/spectap && \
    mkdir -p /out/tmp

FROM scratch
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="spectap" \
      org.opencontainers.image.description="measures an LLM server from the wire" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.created=$CREATED
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/spectap /spectap
# A folder for temporary files: the sweep's socket lives there.
COPY --from=build --chmod=1777 /out/tmp /tmp
USER 65532:65532
EXPOSE 8000 9464
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["/spectap", "healthcheck"]
ENTRYPOINT ["/spectap"]
CMD ["proxy"]
