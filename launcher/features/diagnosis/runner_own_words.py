"""Distinguishes words of an exception about itself from text that its program quotes. Pure.

Exceptions of libraries are taken at their word. An exception of a program's own class may speak of
anything, such as of a log that it compares, so only the beginning of its message counts.
"""

from __future__ import annotations

import builtins
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .runner_last_output import RaisedException

_PACKAGES = """
_pickle absl accelerate adlfs aiobotocore aiohttp anthropic apex argparse asyncio asyncpg av
azure binascii bitsandbytes boto3 botocore bz2 cassandra clearml click cloudpickle colossalai
comet_ml composer concurrent configparser confluent_kafka csv ctypes cudf cupy cupy_backends cv2
dask datasets decord deepspeed diffusers dill distributed docker elasticsearch etcd3 fairseq
flash_attn flax fsspec functorch gcsfs google googleapiclient grpc gzip h5py habana_frameworks
hf_xet horovod http httpcore httpx huggingface_hub hydra importlib intel_extension_for_pytorch
jax jaxlib joblib json jsonschema kafka keras kubernetes libneuronxla librosa lightning
lightning_fabric litdata lmdb lmdeploy lzma megatron mindspore minio mlflow modelscope mpi4py
multiprocessing mysql nats nemo neptune neuronxcc numba numpy nvidia omegaconf onnx onnxruntime
openai opensearchpy optax orbax orjson oss2 packaging paddle pandas paramiko peft pickle pika
PIL pkg_resources psycopg psycopg2 pyarrow pycuda pydantic pydantic_core pymongo pymysql pynvml
pytorch_lightning queue ray redis requests rmm ruamel s3fs s3transfer safetensors
safetensors_rust scipy sentencepiece sglang shutil sklearn smart_open socket soundfile
sqlalchemy sqlite3 ssl streaming struct subprocess tables tarfile tensorflow tensorrt
tensorrt_llm text_generation_server tiktoken timm tokenizers toml tomllib torch torch_neuronx
torch_npu torch_xla torchao torchaudio torchcodec torchdata torchrec torchvision
transformer_engine transformers triton trl typer ucp ucxx urllib urllib3 vllm wandb webdataset
websocket websockets xformers xml yaml zarr zipfile zlib zmq zstandard
"""

LIBRARIES = frozenset(_PACKAGES.split())
"""Packages whose exceptions are no program's own."""

_NAMES = """
AcceleratorError ArrowInvalid ClientError CommError DistBackendError DistNetworkError
DistStoreError Error GatedRepoError HfHubHTTPError HTTPError JaxRuntimeError
LocalEntryNotFoundError LocalTokenNotFoundError NoCredentialsError OutOfMemoryError
RepositoryNotFoundError SafetensorError UnpicklingError XlaRuntimeError ZMQError
"""

CLASSES = frozenset(_NAMES.split())
"""Names of such classes where a program such as rich leaves out the package."""

_MESSAGE = re.compile(r"(?:The |An? |\[[^\]\n]{0,80}\] ?|[\w.]{1,80}(?:Error|Exception): )*")
"""Text that may precede the words with which a message begins."""

_TELLS = (
    *("error", "exception", "failure", "failed", "reason", "failed with", "died with"),
    *("exited with", "crashed with", "terminated with", "aborted with", "returned", "with message"),
)
"""Words before a quoted text that is the reason of an exception."""

_COMPARING = ("AssertionError", "KeyError")
"""Exceptions in which a quoted text is a value."""

_NEWS = re.compile(r"\b(?:INFO|DEBUG)\b")
"""Log levels that report no failure."""

_QUOTES = "\"'`\u201c\u2018"


def is_evidence(raised: RaisedException, words: str) -> bool:
    """Return whether these words, found in an exception, report the failure."""
    named, _, message = raised.text.partition(":")
    module, _, name = named.rpartition(".")
    if name != raised.name:  # of C++, whose class is not shown with its message
        return True
    if not module and hasattr(builtins, name):
        return not _is_quoted(message, words, compared=name in _COMPARING)
    if module.partition(".")[0] in LIBRARIES or (not module and name in CLASSES):
        return True
    message = message.lstrip()
    begin = _MESSAGE.match(message)
    return message.startswith(words, begin.end() if begin else 0)


def tells(line: str, words: Sequence[str]) -> bool:
    """Return whether a line has one of these words outside a quotation, and is not mere news."""
    there = [one for one in words if one in line]
    if any(match.start() < line.index(one) for one in there for match in _NEWS.finditer(line)):
        return False
    return not words or not all(_is_quoted(line, one, compared=True) for one in there)


def _is_quoted(message: str, words: str, *, compared: bool) -> bool:
    """Return whether words are only a quotation in a sentence."""
    if words.startswith(tuple(_QUOTES)):
        return False
    line = next((line for line in message.split("\n") if words in line), "")
    before = line.partition(words)[0]
    at = max(before.rfind(quote) for quote in _QUOTES)
    lead = before[:at]
    if at < 1 or lead[-1] not in " (" or before[at + 1 : at + 2].isspace():
        return False
    if compared:
        return True
    if lead[-1] == "(":  # of a call, such as Failure("..."), or after a word
        return lead[-2:-1].isspace()
    last = lead.rstrip()
    return last[-1:].isalnum() and not last.lower().endswith(_TELLS)
