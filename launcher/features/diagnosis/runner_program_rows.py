"""Failures of the program itself, and of how it was started or installed."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .runner_row import Row, said

SCRIPT, NODE, NETWORK = FailureClass.SCRIPT, FailureClass.NODE, FailureClass.NETWORK
NO = Retry.NO

SAME_PACKAGES = "install the same versions on all nodes; dsrun-check compares them"
NAMED_MODULE = (
    "check the name after -m, and the places where it is looked for: the working folder"
    " (--workdir), PYTHONPATH, and the packages of this Python (--python)"
)
FITTING = "install a version of it that matches the installed torch"

INSTALL_ROWS = (
    Row(
        "package-library",
        SCRIPT,
        NO,
        said("cannot open shared object file"),
        "{package} is installed without its library {library}",
        "install a build of it for this device and torch",
        pattern=r"/(?:site|dist)-packages/(?P<package>\w{1,80})/(?:[\w.-]{1,80}/){0,8}"
        r"(?P<library>[\w.+-]{1,99}): cannot open shared object file",
    ),
    Row(
        "library-missing",
        NODE,
        NO,
        said("cannot open shared object file"),
        "{library} is missing on this node",
        "install it there, or name its folder in LD_LIBRARY_PATH; dsrun-check compares the nodes",
        pattern=r"(?<![\w.+-])(?P<library>[\w.+-]+): cannot open shared object file",
    ),
    Row(
        "library-old",
        NODE,
        NO,
        said("' not found (required by"),
        "{version} is not in this node's system libraries: they are too old",
        "use a container, or packages that were built for this system",
        pattern=r"version [`'](?P<version>[\w.]+)' not found",
    ),
    Row(
        "binary-mismatch",
        SCRIPT,
        NO,
        said(
            "undefined symbol",
            "symbol lookup error",
            "numpy.dtype size changed",
            "compiled using NumPy 1.x cannot be run in",
            "numpy.core.multiarray failed to import",
            "compiled with a different version of",
            "operator torchvision::",
            "Couldn't load custom C++ ops",
            "CUDA binary not found at",
            "ROCm binary not found at",
            "was compiled for",
        ),
        "a package was built for another version of a library that it uses",
        FITTING,
    ),
    Row(
        "torch-missing",
        SCRIPT,
        NO,
        said("No module named "),
        "{module} is not installed for the Python of this worker",
        "install it there (PYTHON -m pip install torch), or choose another Python (--python)",
        raised=("ModuleNotFoundError", "ImportError"),
        pattern=r"No module named '?(?P<module>torch)\b'?$",
    ),
    Row(
        "module-missing",
        SCRIPT,
        NO,
        said("No module named "),
        advice=SAME_PACKAGES,
        raised=("ModuleNotFoundError", "ImportError"),
    ),
    Row("import", SCRIPT, NO, raised=("ImportError",), advice=SAME_PACKAGES),
    Row(
        "import",
        SCRIPT,
        NO,
        said("because of the following error (look up to see its traceback)"),
        "a module cannot be imported: {why}",
        SAME_PACKAGES,
        pattern=r"^(?P<why>(No module named|cannot import name) .*"
        r"|module '[^'\n]*' has no attribute .*)",
    ),
    Row(
        "no-user",
        NODE,
        NO,
        said(
            "getpwuid(): uid not found: ",
            "No username set in the environment",
            "cannot find name for user ID ",
        ),
        "this user has no entry in the node's user database, so a library or program cannot find"
        " the user's name",
        "set LOGNAME and HOME (--export LOGNAME=NAME; for torch.compile also"
        " TORCHINDUCTOR_CACHE_DIR), or add the user to /etc/passwd",
    ),
    Row(
        "no-group",
        NODE,
        NO,
        said("getgrgid(): gid not found: ", "cannot find name for group ID "),
        "a group of this user has no entry in the node's group database, so a library or"
        " program cannot find the group's name",
        "add the group to /etc/group, or start the container with a group that exists",
    ),
    Row(
        "no-home",
        NODE,
        NO,
        said("Could not determine home directory", "Can't determine home directory"),
        "this user has no home folder: HOME is not set, and the user database has none",
        "set HOME for the workers (--export HOME=DIR)",
    ),
    Row(
        "build",
        SCRIPT,
        NO,
        said("mismatches the version that was used to compile"),
        "an extension could not be compiled: nvcc is from CUDA {found}, but torch was built for"
        " {wanted}",
        "install the CUDA toolkit that matches torch, or a prebuilt package",
        pattern=r"CUDA version \((?P<found>[\d.]+)\) mismatches the version that was used to"
        r" compile\s+PyTorch \((?P<wanted>[\d.]+)\)",
    ),
    Row(
        "build",
        SCRIPT,
        NO,
        said(
            "Error building extension",
            "Ninja is required to load C++ extensions",
            "CUDA_HOME environment variable is not set",
            "CUDA_HOME does not exist",
            "does not match the version torch was compiled with",
            "mismatches the version that was used to compile",
            "Unable to JIT load the ",
            "Failed to find C compiler",
            "Cannot find ptxas",
            "Cannot find a working triton installation",
        ),
        "an extension could not be compiled",
        "install a compiler, ninja and the CUDA toolkit on all nodes, or a prebuilt package",
    ),
    Row(
        "ptxas",
        SCRIPT,
        NO,
        said("ptxas fatal", "PTXAS error", "`ptxas` failed"),
        "ptxas, which compiles Triton's kernels, does not support this device",
        "install a newer triton or CUDA toolkit; TRITON_PTXAS_PATH names another ptxas",
    ),
    Row(
        "compile",
        SCRIPT,
        NO,
        raised=("BackendCompilerFailed", "InductorError", "CompilationError", "LoweringException"),
        sentence="torch.compile failed",
        advice="see whether it runs with TORCH_COMPILE_DISABLE=1",
    ),
)

NOT_FINITE_ROW = Row(
    "not-finite",
    SCRIPT,
    Retry.UNKNOWN,
    said(
        "returned nan values",
        "loss is nan",
        "Loss is nan",
        "loss is NaN",
        "NaN loss",
        "nan loss",
        "loss became NaN",
        "found NaN in",
        "contains NaN",
        "Loss is inf",
        "current loss scale already at minimum",
        "loss scale already at minimum",
        "Minimum loss scale reached",
    ),
    "a training value is no longer finite",
    "restart from an earlier checkpoint, with a lower learning rate or other data",
)
"""A training that diverges; a rule may find this, too."""

ARGUMENT_ROWS = (
    Row(
        "arguments",
        SCRIPT,
        NO,
        said("Some specified arguments are not used by the "),
        pattern=r"are not used by the \w*Parser\b",
    ),
    Row(
        "arguments",
        SCRIPT,
        NO,
        said(
            "could not convert string to float: '-",
            "invalid literal for int() with base 10: '-",
        ),
        "the script treats its argument {argument} as a number",
        "give it the arguments that it accepts, in order",
        # Other texts that begin with a hyphen are from data, such as -, -1,5 and -nan(ind).
        pattern=r": '(?P<argument>--?(?!nan\b|inf\b)[A-Za-z][^'\n]*)'$",
    ),
)
"""Rows about a program's arguments; they precede the rows about its data."""

USE_ROWS = (
    Row("none", said=said("'NoneType' object"), raised=("AttributeError", "TypeError")),
    Row(
        "mistake",
        SCRIPT,
        NO,
        raised=(
            "NameError",
            "UnboundLocalError",
            "SyntaxError",
            "IndentationError",
            "TabError",
            "AttributeError",
            "TypeError",
            "NotImplementedError",
            "RecursionError",
            "InvalidBackend",
            # Of numba.
            "LoweringError",
            "TypingError",
        ),
    ),
    Row(
        "tensor-empty",
        said=said("The size of tensor "),
        pattern=r"The size of tensor a \((\d+\) must match the size of tensor b \()?0\)",
        sentence="a tensor has no elements: a mistake in the program, or an empty sample",
    ),
    Row(
        "tensors",
        SCRIPT,
        NO,
        said(
            "Expected all tensors to be on the same device",
            "shapes cannot be multiplied",
            "size mismatch, m1: [",
            "size mismatch (got input: [",
            "shape mismatch: value tensor of shape",
            "shape mismatch: indexing tensors could not be broadcast",
            "must match the size of tensor",
            "Expected input batch_size",
            "does not require grad and does not have a grad_fn",
            "modified by an inplace operation",
            "backward through the graph a second time",
            "expected scalar type",
            "to have the same dtype",
            "must have the same dtype",
            "Expected more than 1 value per channel",
            "is invalid for input of size",
            "expected input[",
            "Tensors must be CUDA and dense",
            "Must flatten tensors with uniform",
        ),
    ),
    Row(
        "unused-parameters",
        SCRIPT,
        NO,
        said("Expected to have finished reduction in the prior iteration"),
        "{which} do not contribute to the loss of rank {rank}, and DDP waits for them",
        "DistributedDataParallel(..., find_unused_parameters=True)",
        pattern=r"Parameters which did not receive grad for rank (?P<rank>\d+):"
        r" (?P<which>[^\n]{1,160})",
    ),
    Row(
        "unused-parameters",
        SCRIPT,
        NO,
        said("Expected to have finished reduction in the prior iteration"),
        "parameters {which} do not contribute to the loss of rank {rank}, and DDP waits for them",
        "DistributedDataParallel(..., find_unused_parameters=True)",
        pattern=r"Parameter indices which did not receive grad for rank (?P<rank>\d+):"
        r" (?P<which>\d[\d ]{0,99}\d|\d)",
    ),
    Row(
        "ddp",
        SCRIPT,
        NO,
        said(
            "has been marked as ready twice",
            "Expected to mark a variable ready only once",
            "DistributedDataParallel is not needed when",
            "DistributedDataParallel device_ids and output_device",
            "Modules with uninitialized parameters can't be used with",
            "SyncBatchNorm layers only work with",
        ),
        "DDP rejects the model or the way it is used",
    ),
    Row(
        "backend",
        SCRIPT,
        NO,
        said("No backend type associated with device type"),
        "the process group's backend does not support tensors on this device",
        "init_process_group(backend='cpu:gloo,cuda:nccl') supports both",
    ),
    Row(
        "unused-parameters",
        SCRIPT,
        NO,
        said("Expected to have finished reduction in the prior iteration"),
        advice="DistributedDataParallel(..., find_unused_parameters=True)",
    ),
    Row(
        "models-differ",
        SCRIPT,
        NO,
        said("DDP expects same model across all ranks", "appears not to match sizes"),
        "the ranks built different models",
    ),
    NOT_FINITE_ROW,
    Row(
        "embedding-index",
        said=said("index out of range in self"),
        sentence="an index is beyond the end of an embedding,"
        " such as a token id of another tokenizer",
    ),
    Row(
        "pickle",
        SCRIPT,
        NO,
        said("Can't pickle", "cannot pickle", "Can't get attribute", "Can't get local object"),
        advice="objects passed to another process must be defined at the top level of a module",
    ),
    Row(
        "main-guard",
        SCRIPT,
        NO,
        said("before the\n        current process has finished its bootstrapping phase"),
        "the script starts processes whenever it is imported",
        "start them under if __name__ == '__main__':",
    ),
    Row(
        "world-size",
        SCRIPT,
        NO,
        said(
            "not divisible by",
            "must be divisible by",
            "should be divisible by",
            "train_batch_size is not equal to",
        ),
        "the options do not match the number of ranks",
        pattern=r"world.size|train_batch_size|data.parallel"
        r"|(tensor|pipeline|context|expert).(model.)?parallel|pipeline.size",
    ),
    Row(
        "tokenizer-old",
        SCRIPT,
        NO,
        said("untagged enum ModelWrapper", "untagged enum PyPreTokenizerTypeWrapper"),
        "the tokenizer was written by a newer version of tokenizers than the installed one",
        "install newer tokenizers and transformers",
    ),
    Row(
        "kernel-resources",
        SCRIPT,
        NO,
        said("out of resource: shared memory"),
        "a Triton kernel needs more shared memory than a multiprocessor of this device has",
        "use smaller blocks or fewer stages",
    ),
    Row(
        "architecture",
        SCRIPT,
        NO,
        said("does not recognize this architecture"),
        advice="install a newer transformers, or let the model bring its code (trust_remote_code)",
    ),
    Row(
        "configuration",
        SCRIPT,
        NO,
        raised=(
            "ConfigAttributeError",
            "ConfigKeyError",
            "MissingMandatoryValue",
            "ScannerError",
            "ParserError",
            "ConfigCompositionException",
            "DeepSpeedConfigError",
            "MisconfigurationException",
        ),
    ),
    Row(
        "mistake",
        SCRIPT,
        NO,
        raised=("KeyError", "IndexError", "ZeroDivisionError"),
        by_sample=True,
    ),
)

USER_ROWS = tuple(
    row._replace(raised=("KeyError",))
    for row in INSTALL_ROWS
    if row.name in {"no-user", "no-group"}
)
"""Python's messages about users and groups without an entry."""

START_ROWS = (
    Row(
        "arguments",
        SCRIPT,
        NO,
        said(
            "error: unrecognized arguments:",
            "error: the following arguments are required:",
            "error: argument ",
            "error: ambiguous option:",
            "error: one of the arguments",
            "No such option",
            "Error: Missing option",
            "Error: Missing argument",
            "Could not consume arg",
            "Unknown command line flag",
            "Could not override '",
        ),
        codes=(1, 2),
    ),
    Row("no-script", SCRIPT, NO, said("can't open file '"), codes=(1, 2)),
    Row(
        "no-module",
        SCRIPT,
        NO,
        said("Error while finding module spec"),
        "-m finds no module {module}",
        NAMED_MODULE,
        pattern=r"Error while finding module spec(?:ification)? for '(?P<module>[^'\n]{1,200})'",
        codes=(1,),
    ),
    Row(
        "no-module",
        SCRIPT,
        NO,
        said(": No module named "),
        "-m finds no module {module}",
        NAMED_MODULE,
        pattern=r"^\S*python[\d.]*: No module named (?P<module>[^\s;]{1,200})",
        codes=(1,),
    ),
    Row(
        "no-command",
        SCRIPT,
        NO,
        said("not found"),
        pattern=r"^\S*sh: .*not found$",
        codes=(127,),
    ),
    Row(
        "no-user-for-ssh",
        NODE,
        NO,
        said("No user exists for uid "),
        "ssh refuses to run for this user, who has no entry in the node's user database",
        "add the user to /etc/passwd",
        codes=(255,),
    ),
    Row("mistake", SCRIPT, NO, pattern=r"^(SyntaxError|IndentationError|TabError): ", codes=(1,)),
    *(row for row in INSTALL_ROWS if row.name in {"no-user", "no-home"}),
    *INSTALL_ROWS[:4],
)
