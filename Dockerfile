# spectap as a static binary on an empty image: CA certificates, no shell, not root.
FROM golang:1.27.3 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /out/spectap ./cmd/spectap && mkdir /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/spectap /spectap
# A folder for temporary files: the sweep's socket lives there.
COPY --from=build --chmod=1777 /out/tmp /tmp
USER 65532:65532
EXPOSE 8000 9464
ENTRYPOINT ["/spectap"]
CMD ["proxy"]
