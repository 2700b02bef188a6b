# Two stages: what builds is not what runs. Dependencies are those of requirements*.lock, by hash.
FROM python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254 AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/ansorpy
WORKDIR /src
COPY requirements.lock requirements-ray.lock requirements-build.lock ./
# Empty, or `ray` for the profile `cluster`: each has a lock of its own, of equal versions.
ARG EXTRAS=""
RUN /opt/ansorpy/bin/pip install --require-hashes --only-binary :all: -r "requirements${EXTRAS:+-$EXTRAS}.lock"
RUN pip install --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY ansorpy ansorpy
COPY rules rules
COPY server server
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/ansorpy/bin/pip install --no-deps /wheels/*.whl

FROM python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254
# libgomp1: the threading layer of parallel kernels; gcc: links libkernel.so; bubblewrap: the sandbox.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 gcc libc6-dev bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin ansorpy \
    && install -d -m 700 -o ansorpy -g ansorpy /data
COPY --from=build /opt/ansorpy /opt/ansorpy
ENV PATH=/opt/ansorpy/bin:$PATH PYTHONDONTWRITEBYTECODE=1 ANSORPY_DATA_DIR=/data \
    ANSORPY_LOG_FORMAT=json
USER 10001:10001
WORKDIR /data
EXPOSE 8720
STOPSIGNAL SIGTERM
ENTRYPOINT ["ansorpy"]
CMD ["serve", "--host", "0.0.0.0"]
