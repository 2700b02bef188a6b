FROM python:3.12-slim
# libgomp: the threading layer of parallel kernels
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home ansorpy && install -d -o ansorpy /data
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY ansorpy ansorpy
COPY rules rules
COPY server server
RUN pip install --no-cache-dir .
USER ansorpy
# Inside a container the port is only as public as its publisher makes it.
ENV ANSORPY_DATA_DIR=/data ANSORPY_ALLOW_REMOTE=1
EXPOSE 8720
CMD ["ansorpy", "serve", "--host", "0.0.0.0"]
