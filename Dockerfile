# The runner's own image, to run beside a Docker socket. It also serves the simulated engine:
#   docker build -t runner .
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock -v "$PWD:/work" runner runner plan experiments/fp8.toml
#   docker run --rm runner python3 -m engines.sim vllm --help
# Any image with Python 3.11 and its venv module will do as BASE.
ARG BASE=python:3.11-slim
FROM ${BASE}

RUN python3 -m venv /opt/runner
ENV PATH=/opt/runner/bin:${PATH} PYTHONUNBUFFERED=1

# what the runner depends on changes less often than the runner
WORKDIR /opt/source
COPY pyproject.toml README.md ./
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' > requirements.txt \
    && pip install --no-cache-dir -r requirements.txt

COPY engines engines
COPY runner runner
RUN pip install --no-cache-dir --no-deps . && rm -rf build *.egg-info

WORKDIR /work
CMD ["runner", "--help"]
