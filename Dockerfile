# The image that runs on the platform: one evaluation per run, without network, as a user without rights.
#
# PYTHON_IMAGE is any linux/amd64 image with Python 3.11 and venv. Pin it to the digest that you have tested:
#   ./build.sh --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:…
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

# The packages of requirements/run.lock, each checked against its hash; without pip and without the packages' own tests
# (NumPy's stay: numpy.testing imports from them).
FROM ${PYTHON_IMAGE} AS builder
COPY requirements/run.lock /build/run.lock
RUN python3 -m venv --without-pip /opt/venv \
 && python3 -m venv /build/pip \
 && /build/pip/bin/python -m pip --python /opt/venv/bin/python --disable-pip-version-check install \
      --no-cache-dir --require-hashes --only-binary :all: --requirement /build/run.lock \
 && find /opt/venv -depth -type d \( -name tests -o -name test \) -not -path '*/numpy/*' -exec rm -rf {} +
COPY evaluation /opt/evaluation/evaluation
COPY library/nuclei_metrics /opt/evaluation/nuclei_metrics
COPY ground_truth /opt/evaluation/ground_truth
# Bytecode is made here, because the root file system is read-only later; and any user may read, whatever the umask was.
RUN find /opt/evaluation -depth -name __pycache__ -exec rm -rf {} + \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/evaluation/evaluation /opt/evaluation/nuclei_metrics \
 && chmod -R a+rX,go-w /opt/evaluation

FROM ${PYTHON_IMAGE}
COPY --from=builder /opt/venv /opt/venv
COPY --from=builder /opt/evaluation /opt/evaluation

# No name may start with GRAND_CHALLENGE_: the platform removes those.
ENV PYTHONPATH=/opt/evaluation \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp

# build.sh adds the labels of version and revision: as arguments, buildah would take them from its cache of another commit.
LABEL org.opencontainers.image.title="nuclei-evaluation" \
      org.opencontainers.image.description="Evaluation of nuclei instance segmentation and classification"

USER 10001:10001
WORKDIR /opt/evaluation
ENTRYPOINT ["/opt/venv/bin/python", "-m", "evaluation", "score"]
