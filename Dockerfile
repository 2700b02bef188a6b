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
ENV ANSORPY_DATA_DIR=/data
EXPOSE 8720
CMD ["ansorpy", "serve", "--host", "0.0.0.0"]
