# The program with both backends, for NVIDIA GPUs, without the Python tools (docs/running.md).
#
#   docker build -t overlapbench --build-arg OVERLAPBENCH_REVISION="$(git describe --always)" .
#   docker run --rm --gpus all --ipc=host overlapbench \
#       mpirun -n 2 --bind-to none overlapbench --benchmark_filter=Overlap
ARG CUDA=12.8.1

FROM nvidia/cuda:${CUDA}-devel-ubuntu24.04 AS build
# Package versions are the distribution's, as with ./bench.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
      cmake g++ libbenchmark-dev libfmt-dev libopenmpi-dev ninja-build \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG OVERLAPBENCH_REVISION=unknown
RUN cmake --preset release -DOVERLAPBENCH_CUDA=ON -DBUILD_TESTING=OFF \
    && cmake --build --preset release --target overlapbench_and_libraries \
    && cmake --install build/release --prefix /opt/overlapbench

FROM nvidia/cuda:${CUDA}-runtime-ubuntu24.04
# CUPTI for the image's CUDA version: --trace_out opens it.
# hadolint ignore=DL3008
RUN cuda=${CUDA_VERSION%.*} && apt-get update && apt-get install -y --no-install-recommends \
      "cuda-cupti-${cuda%.*}-${cuda#*.}" libbenchmark1.8.3 libfmt9 openmpi-bin \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 bench
COPY --from=build /opt/overlapbench/bin/overlapbench /usr/local/bin/
USER 10001
WORKDIR /home/bench
# Most containers forbid direct copies between processes, and each attempt prints an error.
ENV OMPI_MCA_btl_vader_single_copy_mechanism=none
CMD ["overlapbench", "--help"]
