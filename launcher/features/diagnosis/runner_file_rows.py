"""Failures of a program's files: disks, data sets and checkpoints."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .runner_device_rows import SHARED
from .runner_row import Row, said

DATA, NODE, MEMORY, SCRIPT, NETWORK = (
    FailureClass.DATA,
    FailureClass.NODE,
    FailureClass.MEMORY,
    FailureClass.SCRIPT,
    FailureClass.NETWORK,
)
YES, NO, PERHAPS = Retry.YES, Retry.NO, Retry.UNKNOWN

LESS = "use less memory: smaller batches, fewer data loader workers or fewer workers per node"
OPEN_FILES = (
    "raise the limit of open files (ulimit -n), or pass tensors as files:"
    " torch.multiprocessing.set_sharing_strategy('file_system')"
)
EARLIER = "load the previous one; write checkpoints under a temporary name, then rename them"
EVERYWHERE = "make sure that it is on every node under this path; --sync copies the working folder"

RAY_MEMORY_LINE = Row(
    "host-memory",
    MEMORY,
    PERHAPS,
    said(
        "killed due to memory pressure (OOM)",
        "Refer to the documentation on how to address the out of memory issue",
    ),
    "Ray killed workers because the node was short of memory",
    LESS,
)
"""A report by Ray, in many lines."""

SHARED_MEMORY_LINE = Row(
    "shm-full",
    MEMORY,
    NO,
    said("might be caused by insufficient shared memory (shm)"),
    "/dev/shm has no room for the batches of data loaders",
    SHARED,
    finds="shm",
)
"""A report by data loaders, also before an exception that does not repeat it."""

SHARED_MEMORY_ROWS = (
    Row(
        "shm-full",
        MEMORY,
        NO,
        said("No space left on device"),
        "/dev/shm has no room for data that processes share",
        SHARED,
        pattern=r"\((synchronize|shared_memory)\.py:",
        finds="shm",
    ),
    Row(
        "shm-full",
        MEMORY,
        NO,
        said(
            "unable to write to file </torch_",
            "unable to mmap",
            "unable to open shared memory object",
            "unable to allocate shared memory(shm)",
            "insufficient shared memory",
            "out of shared memory",
            "'/dev/shm/",
        ),
        "/dev/shm has no room for the batches of data loaders",
        SHARED,
        pattern=r"No space left|Success|(?<!unable to open )shared memory",
        finds="shm",
    ),
    Row(
        "ray-store",
        MEMORY,
        NO,
        raised=("ObjectStoreFullError",),
        sentence="Ray's object store, which is in /dev/shm, is full",
        advice=SHARED,
    ),
    Row(
        "loader-killed",
        MEMORY,
        PERHAPS,
        said("is killed by signal: Killed"),
        "a data loader was killed, probably by the kernel because memory was short",
        LESS,
        finds="memory",
    ),
    Row(
        "loader-crashed",
        said=said("is killed by signal", "exited unexpectedly"),
        sentence="a data loader of this rank died",
        advice="num_workers=0 shows the underlying error",
        finds="memory",
    ),
    Row(
        "loader-late",
        DATA,
        PERHAPS,
        said("DataLoader timed out after"),
        "DataLoader timed out after {limit} s",
        "check the storage that the data is read from",
        pattern=r"DataLoader timed out after (?P<limit>[\d.]+)",
    ),
)

DISK_ROWS = (
    Row(
        "disk-full",
        DATA,
        NO,
        said(
            "No space left on device",
            "[Errno 28]",
            "PytorchStreamWriter failed writing",
            "ENOSPC",
        ),
        "a disk is full",
        "remove files there, or write to another folder",
        finds="disk",
    ),
    Row(
        "disk-full",
        DATA,
        NO,
        raised=("OutOfDiskError",),  # of Ray
        sentence="a disk is full",
        advice="remove files there, or write to another folder",
    ),
    Row(
        "disk-short-write",
        DATA,
        said=said("inline_container.cc"),
        pattern=r"unexpected pos \d+ vs \d+",
        sentence="a checkpoint could not be written completely; the disk may be full",
        finds="disk",
    ),
    Row(
        "disk-quota",
        DATA,
        NO,
        said("Disk quota exceeded", "[Errno 122]"),
        "this user's disk quota is used up",
        "remove files, or write to another folder",
    ),
    Row(
        "file-size",
        DATA,
        NO,
        said("[Errno 27]"),
        "a file grew beyond its size limit",
        "raise the limit (ulimit -f)",
    ),
    Row(
        "open-files",
        NODE,
        NO,
        said("Too many open files", "[Errno 24]", "items of ancdata"),
        "too many open files: this rank has reached its limit",
        OPEN_FILES,
    ),
    Row(
        "processes",
        NODE,
        PERHAPS,
        said("can't start new thread", "Resource temporarily unavailable"),
        "this user has reached the node's limit on processes and threads (RLIMIT_NPROC {limit})",
        "raise the limit there (ulimit -u, or the container's pids limit), or start fewer",
        pattern=r"RLIMIT_NPROC (?P<limit>\d+) current",
    ),
    Row(
        "processes",
        NODE,
        PERHAPS,
        said("can't start new thread", "Resource temporarily unavailable"),
        "this user has reached the node's limit on processes and threads",
        "raise the limit there (ulimit -u, or the container's pids limit), or start fewer",
        # Not for a lock, which gives an equal error.
        pattern=r"start new thread|\((popen_\w+|subprocess|process)\.py",
    ),
    Row(
        "processes",
        NODE,
        PERHAPS,
        said("Resource temporarily unavailable", "pthread_create failed"),
        "this user has reached the node's limit on processes and threads",
        "raise the limit there (ulimit -u, or the container's pids limit), or start fewer",
        raised=("system_error",),  # of C++, which starts threads
    ),
    Row(
        "stale",
        NODE,
        YES,
        said(
            "Stale file handle",
            "Transport endpoint is not connected",
            "Cannot send after transport endpoint shutdown",
            "[Errno 108]",
            "[Errno 116]",
        ),
        "a file system on this node lost its server",
        "mount it again",
    ),
    Row(
        "disk-error",
        NODE,
        PERHAPS,
        said("Input/output error", "[Errno 5]", "Remote I/O error"),
        "a file system on this node reports a disk or server error",
        "look at the node's kernel log",
    ),
    Row(
        "read-only",
        DATA,
        PERHAPS,
        said("Read-only file system"),
        "the program tried to write to a read-only file system",
        "write to another folder",
    ),
    Row("no-permission", DATA, NO, said("Permission denied", "[Errno 13]")),
    Row(
        "host-memory",
        MEMORY,
        PERHAPS,
        said("Cannot allocate memory", "can't allocate memory", "std::bad_alloc", "bad allocation"),
        "the system refused to allocate more memory",
        LESS,
    ),
    Row("host-memory", MEMORY, NO, raised=("MemoryError", "_ArrayMemoryError"), advice=LESS),
    Row(
        "host-memory",
        MEMORY,
        PERHAPS,
        said("running low on memory"),
        "Ray killed it because node {node} was short of memory: {used} in use, and the threshold"
        " is {limit}",
        LESS,
        pattern=r"on the node \(IP: (?P<node>[\w.:]{1,80}),[^\n]{0,600}? was running was"
        r" (?P<used>[\d.]+\w+ / [\d.]+\w+) \([^\n]{0,80}threshold of (?P<limit>[\d.]*\d)",
    ),
    Row(
        "host-memory",
        MEMORY,
        PERHAPS,
        said("running low on memory"),
        "Ray killed it because the node was short of memory",
        LESS,
        raised=("OutOfMemoryError", "OutOfMemoryError)"),
    ),
    Row(
        "no-program",
        NODE,
        NO,
        said("No such file or directory"),
        "{program} is not installed on this node",
        raised=("FileNotFoundError",),
        pattern=r"\A(?=[\s\S]*\(subprocess\.py)[\s\S]*?"
        r"No such file or directory: '(?P<program>[^/'.]+)'",
    ),
    Row("no-file", DATA, NO, raised=("FileNotFoundError", "NotADirectoryError"), advice=EVERYWHERE),
    Row(
        "file-exists",
        SCRIPT,
        NO,
        raised=("FileExistsError",),
        advice="several ranks may create the same folder: use os.makedirs(..., exist_ok=True)",
    ),
)

THREAD_LIMIT = Row(
    "processes",
    NODE,
    PERHAPS,
    said(
        "OpenBLAS blas_thread_init: pthread_create failed",
        "libgomp: Thread creation failed",
        "OMP: Error #34",
    ),
    "this user has reached the node's limit on processes and threads",
    "raise the limit there (ulimit -u, or the container's pids limit), or start fewer"
    " (OPENBLAS_NUM_THREADS)",
)
"""A row of OpenBLAS, after which a program ends in various ways."""

CHECKPOINT_ROWS = (
    Row(
        "checkpoint-model",
        DATA,
        NO,
        said(
            "size mismatch for ",
            "Missing key(s) in state_dict",
            "Unexpected key(s) in state_dict",
            "Error(s) in loading state_dict",
            "Size mismatch between saved",
            "doesn't match the size of optimizer's group",
            "contains a parameter group that doesn't match",
            "Missing key in checkpoint state_dict",
            "File does not contain tensor ",
        ),
        "the checkpoint does not match the model",
        "load a checkpoint written by this model with these options",
    ),
    Row(
        "checkpoint-world",
        DATA,
        NO,
        said("checkpoint being loaded used a DP world size", "dp world size of"),
        "the checkpoint was written by a different number of ranks",
        "use the same number of ranks, or convert it to a universal checkpoint",
    ),
    Row(
        "checkpoint-unsafe",
        SCRIPT,
        NO,
        said("Weights only load failed"),
        "the file contains more than tensors, which torch.load has refused since torch 2.6",
        "if you trust the file, use torch.load(..., weights_only=False)",
        pattern=r"Unsupported (global|class)|not an allowed|This file can still be loaded",
    ),
    Row(
        "checkpoint-broken",
        DATA,
        NO,
        said(
            "failed finding central directory",
            "file in archive is not in a subdirectory",
            "invalid header or archive is corrupted",
            "The file might be corrupted",
            "Ran out of input",
            "pickle data was truncated",
            "Error while deserializing header",
            "invalid load key",
            "MetadataIncompleteBuffer",
            "HeaderTooLarge",
            "HeaderTooSmall",
            "InvalidHeaderLength",
            "InvalidHeaderDeserialization",
            "Invalid magic number; corrupt file",
            "PytorchStreamReader failed reading file",
            "not a valid checkpoint",
            "Weights only load failed",
        ),
        "a loaded file is truncated or broken, perhaps because a job ended while writing it",
        EARLIER,
    ),
    Row(
        "checkpoint-broken",
        DATA,
        NO,
        raised=("EOFError",),
        pattern=r"\((serialization|_weights_only_unpickler)\.py",
        sentence="a loaded file is empty or truncated",
        advice=EARLIER,
    ),
    Row(
        "checkpoint-broken",
        DATA,
        NO,
        said("is invalid for input of size"),
        "a loaded file does not match its header",
        EARLIER,
        pattern=r"\(torch\.py:",  # of safetensors
    ),
    Row(
        "checkpoint-missing",
        DATA,
        NO,
        said("Unable to find latest file at", "no checkpoint found", "No checkpoint found"),
        "there is no checkpoint where the program looks for one",
        EVERYWHERE,
    ),
)

DATA_ROWS = (
    Row(
        "tokenizer",
        DATA,
        NO,
        said(
            "Can't load tokenizer for",
            "Couldn't instantiate the backend tokenizer",
            "Can't load config for",
            "Can't load the configuration of",
            "Can't load the model for",
            "Error no file named",
            "does not appear to have a file named",
        ),
        "part of the model is missing, or needs a package that is not installed",
        EVERYWHERE,
    ),
    Row(
        "data-missing",
        DATA,
        NO,
        said(
            "Unknown split ",
            "data files found in",
            "Couldn't find any data file at",
            "Couldn't find a dataset script at",
            "BuilderConfig ",
        ),
        "the data set has no such split or file",
        EVERYWHERE,
        pattern=r"Unknown split |data files? (found in|at)|dataset script at"
        r"|BuilderConfig '?[\w.-]+'? not found",
    ),
    Row(
        "bad-data",
        DATA,
        NO,
        said(
            "cannot identify image file",
            "image file is truncated",
            "could not convert string to float",
            "File is not a zip file",
            "Not a gzipped file",
            "Compressed file ended before",
            "Parquet magic bytes not found",
            "unexpected end of data",
            "truncated file",
            "CRC check failed",
            "Error tokenizing data",
            "Error -3 while decompressing",
            "MDB_CORRUPTED",
            "broken data stream",
            "Invalid data found when processing input",
            "No data left in file",
            "file signature not found",
            "database disk image is malformed",
            "file is not a database",
            "MDB_INVALID",
            "corrupted record at",
            "truncated record",
            "not a gzip file",
            "file could not be opened successfully",
            "Format not recognised",
            "Not an Arrow file",
            "Expected to be able to read",
            "Corrupt input data",
            "Corrupted block detected",
            "not well-formed (invalid token)",
            "metadata bytes, but only read",
            "Couldn't deserialize thrift",
            "No columns to parse from file",
            "premature end of ",
        ),
        "a data file is truncated, broken or in another format",
    ),
    Row(
        "short-data",
        DATA,
        NO,
        said(
            "mmap length is greater than file size",
            "mmap offset is greater than file size",
            "cannot mmap an empty file",
            "buffer is smaller than requested size",
            "no greater than buffer length",
        ),
        "a file is shorter than its reader expects",
        EVERYWHERE,
    ),
    Row(
        "bad-data",
        DATA,
        NO,
        raised=("UnicodeDecodeError", "JSONDecodeError", "UnidentifiedImageError", "BadZipFile"),
        sentence="an input file is truncated, broken or in another format",
    ),
    Row(
        "bad-data",
        DATA,
        NO,
        raised=(
            "ArrowInvalid",
            "ArrowTypeError",
            "DatasetGenerationCastError",
            "SchemaInferenceError",
        ),
        sentence="the data is not in the form that its reader expects, or the records of a"
        " file differ",
    ),
    Row(
        "empty-data",
        DATA,
        NO,
        said("got num_samples=0"),
        "the data set is empty",
        EVERYWHERE,
    ),
    Row(
        "uneven-data",
        DATA,
        NO,
        said("stack expects each tensor to be equal size", "batch must contain tensors"),
        "the samples in a batch do not fit together",
    ),
)
