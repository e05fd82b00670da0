# fedpost in an image of its program, OpenSSL's libcrypto, the C library, the roots of TLS and
# an empty data directory.
#
#   docker build -t fedpost .
#   docker run -p 127.0.0.1:8080:8080 -v fedpost:/data -e FEDPOST_API_TOKEN=… fedpost

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -buildvcs=auto -trimpath -ldflags="-s -w" -o /out/fedpost ./cmd/fedpost && \
    deploy/package/libraries.sh /out/fedpost /out/libraries && \
    mkdir /out/data && \
    cp /etc/ssl/certs/ca-certificates.crt /out/

FROM scratch
COPY --from=build /out/libraries /
COPY --from=build /out/fedpost /usr/bin/fedpost
COPY --from=build /out/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# A number, as there is no /etc/passwd; a volume takes its owner from this directory.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
EXPOSE 8080
# All addresses of the container: so FEDPOST_API_TOKEN is needed.
ENV FEDPOST_LISTEN=0.0.0.0:8080 SQLITE_TMPDIR=/data
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["/usr/bin/fedpost", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/fedpost"]
CMD ["up", "--data", "/data"]
